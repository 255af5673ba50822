// Package rootfs tests the plugin's root filesystem as the plugin uses it: in a chroot, as the user
// that fetches.
package rootfs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"net"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/testroot"
)

const (
	fetchUID = 65532
	maxBytes = 80_000_000
)

// git runs the machine's own git and fails the test if that fails.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=t", "-c", "user.email=t@example.invalid"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// repositories makes top.git with sub.git as its submodule in dir, owned by the fetch user.
func repositories(t *testing.T, dir, subURL string) {
	t.Helper()
	work := t.TempDir()
	for _, name := range []string{"sub", "top"} {
		src := filepath.Join(work, name)
		git(t, work, "init", "-q", "-b", "main", src)
		if name == "top" {
			git(t, src, "submodule", "--quiet", "add", filepath.Join(dir, "sub.git"), "lib")
			git(t, src, "config", "-f", ".gitmodules", "submodule.lib.url", subURL)
		}
		if err := os.WriteFile(filepath.Join(src, name+".txt"), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		git(t, src, "add", "-A")
		git(t, src, "commit", "-q", "-m", name)
		git(t, work, "clone", "-q", "--bare", src, filepath.Join(dir, name+".git"))
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, fetchUID, fetchUID)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProgramsWork(t *testing.T) {
	root := testroot.New(t)
	srv := filepath.Join(root, "srv")
	if err := os.Mkdir(srv, 0o755); err != nil {
		t.Fatal(err)
	}
	repositories(t, srv, "/srv/sub.git")
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	backend := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: []string{
		"GIT_PROJECT_ROOT=" + srv, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	plain, tls := httptest.NewServer(backend), httptest.NewTLSServer(backend)
	defer plain.Close()
	defer tls.Close()
	local := func(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closedPort, _ := net.SplitHostPort(closed.Addr().String())
	closed.Close()

	tests := []struct {
		name  string
		argv  []string
		want  string
		fails bool
	}{
		{name: "git", argv: []string{"git", "--version"}, want: "git version 2."},
		{name: "git-lfs", argv: []string{"git", "lfs", "version"}, want: "git-lfs/3."},
		{name: "ssh", argv: []string{"ssh", "-V"}, want: "OpenSSH"},
		{name: "ssh knows its user", argv: []string{"ssh", "-F", "none", "-o", "BatchMode=yes", "-p", closedPort, "localhost"}, want: "Connection refused", fails: true},
		{name: "ssh-keygen", argv: []string{"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/tmp/key"}},
		{name: "ssh-agent and ssh-add", argv: []string{"ssh-agent", "ssh-add", "/tmp/key"}, want: "Identity added"},
		{name: "ssh-keyscan", argv: []string{"ssh-keyscan"}, want: "usage: ssh-keyscan", fails: true},
		{name: "ls-remote over http", argv: []string{"git", "ls-remote", local(plain.URL) + "/top.git", "refs/heads/main"}, want: "refs/heads/main"},
		{name: "https knows the authorities", argv: []string{"git", "ls-remote", local(tls.URL) + "/top.git"}, want: "CAfile: /etc/ssl/certs/ca-certificates.crt", fails: true},
		{name: "clone over http", argv: []string{"git", "clone", "-q", local(plain.URL) + "/top.git", "/tmp/top"}},
		{name: "submodule update", argv: []string{"git", "-C", "/tmp/top", "-c", "protocol.file.allow=always", "submodule", "update", "--init"}, want: "checked out"},
		{name: "submodule status", argv: []string{"git", "-C", "/tmp/top", "submodule", "status"}, want: " lib (heads/main)"},
		{name: "usage of submodule", argv: []string{"git", "-C", "/tmp/top", "submodule", "nonsense"}, want: "usage: git submodule", fails: true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			cmd := exec.Command("/usr/bin/"+tc.argv[0], tc.argv[1:]...)
			cmd.Dir = "/tmp"
			cmd.Env = []string{"PATH=/usr/bin", "HOME=/nonexistent", "GIT_TERMINAL_PROMPT=0"}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: fetchUID, Gid: fetchUID}}
			out, err := cmd.CombinedOutput()
			if (err != nil) != tc.fails {
				t.Fatalf("%v: got error %v, want failure %v: %s", tc.argv, err, tc.fails, out)
			}
			if !strings.Contains(string(out), tc.want) {
				t.Errorf("%v: got %q, want %q in it", tc.argv, out, tc.want)
			}
			for _, bad := range []string{"not found", "No such file", "cannot open shared object", "warning:"} {
				if bytes.Contains(out, []byte(bad)) {
					t.Errorf("%v: %q in %q", tc.argv, bad, out)
				}
			}
		})
	}
}

// The root filesystem is small, belongs to root, and has no programs that it does not need.
func TestNoUnneededPrograms(t *testing.T) {
	root := testroot.New(t)
	var bytes int64
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		bytes += max(info.Size(), stat.Blocks*512)
		if stat.Uid != 0 || stat.Gid != 0 {
			t.Errorf("%s belongs to %d:%d, want 0:0", path, stat.Uid, stat.Gid)
		}
		if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			t.Errorf("%s is %v, want neither setuid nor setgid", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if bytes > maxBytes {
		t.Errorf("got %d bytes, want at most %d", bytes, maxBytes)
	}
	for _, path := range []string{
		"usr/bin/perl", "usr/bin/apt", "usr/bin/dpkg", "usr/bin/bash", "usr/bin/gpg", "usr/share/perl", "usr/share/doc", "usr/share/man",
		"usr/share/locale", "usr/lib/git-core/git-shell", "var/lib/dpkg",
	} {
		if _, err := os.Lstat(filepath.Join(root, path)); err == nil {
			t.Errorf("%s exists, want it left out", path)
		}
	}
}

func TestAuthorities(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(testroot.New(t), "etc/ssl/certs/ca-certificates.crt"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Errorf("certificate %d: %v", count, err)
		}
		count++
	}
	if count < 100 {
		t.Errorf("got %d authorities, want at least 100, as Debian has", count)
	}
}

// TestConverters checks that every module that glibc's iconv may load exists.
func TestConverters(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(testroot.New(t), "usr/lib/*/gconv"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directories of converters: %q, %v; want exactly one", dirs, err)
	}
	configs, err := filepath.Glob(filepath.Join(dirs[0], "gconv-modules.d/*.conf"))
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, config := range append(configs, filepath.Join(dirs[0], "gconv-modules")) {
		data, err := os.ReadFile(config)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			fields := strings.Fields(line) // module, from, to, file, cost
			if len(fields) < 4 || fields[0] != "module" {
				continue
			}
			count++
			if _, err := os.Stat(filepath.Join(dirs[0], fields[3]+".so")); err != nil {
				t.Errorf("%s to %s: %v", fields[1], fields[2], err)
			}
		}
	}
	if count < 400 {
		t.Errorf("got %d conversions, want at least 400, as glibc has", count)
	}
}
