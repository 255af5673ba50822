package giterror

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stderr string
		want   Kind // if the disk is full
	}{
		{"", KindOther},
		{"fatal: something new\n", KindOther},
		// A connection that breaks says nothing about the certificate.
		{"fatal: remote-curl: bad line length character: <!DO\nfatal: expected flush after ref listing\n", KindPage},
		{"fatal: protocol error: bad line length character: <htm\nfatal: the remote end hung up unexpectedly\n", KindPage},
		{"error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413\nsend-pack: unexpected disconnect while reading sideband packet\nfatal: the remote end hung up unexpectedly\n", KindTooLarge},
		{"error: RPC failed; HTTP 411 curl 22 The requested URL returned error: 411\nfatal: the remote end hung up unexpectedly\n", KindRequest},
		{"error: RPC failed; HTTP 400 curl 22 The requested URL returned error: 400\nfatal: the remote end hung up unexpectedly\n", KindRequest},
		{"error: RPC failed; HTTP 500 curl 22 The requested URL returned error: 500\nfatal: the remote end hung up unexpectedly\n", KindServer},
		{"error: RPC failed; curl 56 GnuTLS recv error (-110): The TLS connection was non-properly terminated.\nfatal: early EOF\n", KindServer},
		{"fatal: unable to access 'https://h/x/': OpenSSL SSL_read: Connection reset by peer, errno 104\n", KindServer},
		{"fatal: unable to access 'https://h/x/': OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to h:443\n", KindServer},
		{"fatal: unable to access 'https://h/x/': GnuTLS, handshake failed: Error in the pull function.\n", KindServer},
		{"fatal: unable to access 'https://h/x/': OpenSSL SSL_read: error:0A000126:SSL routines::unexpected eof while reading, errno 0\n", KindServer},
		{"fatal: unable to access 'https://h/x/': server certificate verification failed. CAfile: none CRLfile: none\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': SSL certificate problem: self-signed certificate\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': gnutls_handshake() failed: The TLS connection was non-properly terminated.\n", KindServer},
		{"fatal: unable to access 'https://h/x/': gnutls_handshake() failed: An unexpected TLS packet was received.\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': OpenSSL/3.0: error:0A00010B:SSL routines::wrong version number\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': Failed to connect to h port 443 after 130000 ms: Connection timed out\n", KindTimeout},
		{"fatal: unable to access 'https://h/x/': Failed to connect to h port 443 after 1 ms: Couldn't connect to server\n", KindRefused},
		{"fatal: unable to access 'https://h/x/': Operation too slow. Less than 1 bytes/sec transferred the last 60 seconds\n", KindTimeout},
		{"fatal: remote error: upload-pack: not our ref 1234\n", KindRefNotFound},
		{"fatal: couldn't find remote ref refs/pull/7/head\n", KindRefNotFound},
		{"fatal: source repository is shallow, reject to clone.\n", KindShallow},
		{"fatal: write error: No space left on device\nfatal: index-pack failed\n", KindNoSpace},
		{"fatal: unable to create temporary file '/s/objects/pack/tmp_pack_XXXXXX': Disk quota exceeded\n", KindOther},
		{"error: object file objects/12/34 is empty\nfatal: loose object 1234 is corrupt\n", KindCorrupt},
		{"error: unable to write file big\n", KindNoSpace},
		// The remote's own message determines only kinds that the remote may choose anyway.
		{"fatal: remote error: access denied or repository not exported: /x\n", KindAuth},
		{"fatal: remote error: No space left on device\n", KindOther},
		{"fatal: remote error: object file x is empty, packed-refs corrupt\n", KindOther},
		{"remote: Repository not found.\nfatal: early EOF\n", KindServer},
		{"remote: no space left on device\nfatal: the remote end hung up unexpectedly\n", KindServer},
		// The remote's progress ends with a carriage return, and git continues after it.
		{"remote: Counting objects:  10% (1/10)\rfatal: early EOF\n", KindServer},
		{"remote: Compressing objects: 1% (1/100)\x1b[K\rremote: timeout\nfatal: early EOF\n", KindServer},
	} {
		if got, _ := classify(tt.stderr, "https://h/x", true); got != tt.want {
			t.Errorf("classify(%q) = %q, want %q", tt.stderr, got, tt.want)
		}
		want := tt.want
		if want == KindNoSpace {
			want = KindOther // the message alone is not enough
		}
		if got, _ := classify(tt.stderr, "https://h/x", false); got != want {
			t.Errorf("classify(%q) = %q with a disk that is not full, want %q", tt.stderr, got, want)
		}
	}
}

// TestSaysNoSpace checks that words alone are told apart from a full disk, and from a remote's.
func TestSaysNoSpace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stderr string
		filled bool
		says   bool
		kind   Kind
	}{
		{"fatal: cannot create directory at 'src': No space left on device\n", true, false, KindNoSpace},
		{"fatal: cannot create directory at 'src': No space left on device\n", false, true, KindOther},
		{"error: unable to write file x\nfatal: loose object 12 is corrupt\n", false, true, KindCorrupt},
		{"fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output\n", false, true, KindServer},
		{"No space left on device\ngit@h: Permission denied (publickey).\n", false, false, KindAuth},
		{"remote: No space left on device\nfatal: early EOF\n", false, false, KindServer},
		{"fatal: remote error: No space left on device\n", false, false, KindOther},
	} {
		err := fmt.Errorf("mount: %w", New("check out", "", tt.stderr, errors.New("exit status 128"), tt.filled))
		if got := SaysNoSpace(err); got != tt.says || KindOf(err) != tt.kind || NoSpace(err) != tt.filled {
			t.Errorf("%q, filled %v: says so: %v, kind %q, no space: %v", tt.stderr, tt.filled, got, KindOf(err), NoSpace(err))
		}
	}
	quota := New("check out", "", "", &fs.PathError{Op: "write", Path: "x", Err: unix.EDQUOT}, true)
	if NoSpace(quota) || SaysNoSpace(quota) || !strings.Contains(quota.Error(), "disk quota exceeded") {
		t.Errorf("a quota that is used up counts as a full disk: %v", quota)
	}
	if SaysNoSpace(unix.ENOSPC) {
		t.Error("ENOSPC is not only words")
	}
}

func TestNewError(t *testing.T) {
	t.Parallel()
	exit := errors.New("exit status 128")
	for _, tt := range []struct {
		name, url, stderr string
		err               error
		want              Kind
		text              string
	}{
		{"words in the URL do not count", "https://timeout.example/ssl", "fatal: unable to access 'https://timeout.example/ssl/': The requested URL returned error: 500\n",
			exit, KindServer, "fetch https://timeout.example/ssl: server error (git: unable to access"},
		{"deadline", "https://h/x", "fatal: whatever\n", context.DeadlineExceeded, KindTimeout, "fetch https://h/x: timeout"},
		{"cancelled", "https://h/x", "", context.Canceled, KindCanceled, "fetch https://h/x: canceled"},
		{"no message", "https://h/x", "", exit, KindOther, "fetch https://h/x: failed (exit status 128)"},
		{"control characters", "", "fatal: a\x1b[31mb\x07c\n", exit, KindOther, "fetch: failed (git: a[31mbc)"},
		{"last fatal line", "", "error: first\nfatal: second\nhint: third\n", exit, KindOther, "fetch: failed (git: second)"},
	} {
		e := New("fetch", tt.url, tt.stderr, tt.err, false)
		if e.Kind != tt.want || !strings.HasPrefix(e.Error(), tt.text) || !errors.Is(e, tt.err) {
			t.Errorf("%s: kind %q, %q; want %q, %q", tt.name, e.Kind, e, tt.want, tt.text)
		}
	}
	long := New("fetch", "", "fatal: "+strings.Repeat("x", 10000), exit, false).Error()
	if len(long) > maxWords+100 { // the operation and the remedy are added
		t.Errorf("the error has %d bytes, want %d at most", len(long), maxWords+100)
	}
	if got := KindOf(exit); got != "" {
		t.Errorf("KindOf(%v) = %q", exit, got)
	}
}
