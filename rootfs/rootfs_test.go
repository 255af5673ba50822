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

	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testroot"
)

const (
	fetchUID = 65532
	maxBytes = 40_000_000 // 15 MB less than rootfs/assemble allows with the plugin
)

// git runs the machine's own git and fails the test if that fails.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.invalid"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// repository makes top.git in dir, owned by the fetch user.
func repository(t *testing.T, dir string) {
	t.Helper()
	src := filepath.Join(t.TempDir(), "top")
	git(t, dir, "init", "-q", "-b", "main", src)
	if err := os.WriteFile(filepath.Join(src, "top.txt"), []byte("top\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, src, "add", "-A")
	git(t, src, "commit", "-q", "-m", "top")
	git(t, dir, "clone", "-q", "--bare", src, "top.git")
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
	repository(t, srv)
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
	_, refusing, err := net.SplitHostPort(testgit.Refusing(t))
	if err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		name  string
		argv  []string
		want  string
		fails bool
	}{
		{name: "git", argv: []string{"git", "--version"}, want: "git version 2."},
		{name: "ssh", argv: []string{"ssh", "-V"}, want: "OpenSSH"},
		{name: "ssh knows its user", argv: []string{"ssh", "-F", "none", "-o", "BatchMode=yes", "-p", refusing, "localhost"}, want: "Connection refused", fails: true},
		{name: "ls-remote over http", argv: []string{"git", "ls-remote", local(plain.URL) + "/top.git", "refs/heads/main"}, want: "refs/heads/main"},
		{name: "https knows the authorities", argv: []string{"git", "ls-remote", local(tls.URL) + "/top.git"}, want: "CAfile: /etc/ssl/certs/ca-certificates.crt", fails: true},
		{name: "clone over http", argv: []string{"git", "clone", "-q", local(plain.URL) + "/top.git", "/tmp/top"}},
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
		if path != testroot.Self(root) {
			bytes += max(info.Size(), stat.Blocks*512)
		}
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
		"usr/share/locale", "usr/lib/git-core/git-shell", "usr/lib/git-core/git-submodule", "usr/bin/git-lfs", "usr/bin/ssh-agent", "var/lib/dpkg",
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

// TestConverters checks that every module that iconv's tables name exists, and that each module is
// named, except for the libraries that modules share.
func TestConverters(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(testroot.New(t), "usr/lib/*/gconv"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("directories of converters: %q, %v; want exactly one", dirs, err)
	}
	configs, err := filepath.Glob(filepath.Join(dirs[0], "gconv-modules.d/*.conf"))
	if err != nil {
		t.Fatal(err)
	}
	count, named := 0, make(map[string]bool)
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
			named[fields[3]+".so"] = true
			if _, err := os.Stat(filepath.Join(dirs[0], fields[3]+".so")); err != nil {
				t.Errorf("%s to %s: %v", fields[1], fields[2], err)
			}
		}
	}
	if count < 150 {
		t.Errorf("got %d conversions, want at least 150: glibc has 500", count)
	}
	modules, err := filepath.Glob(filepath.Join(dirs[0], "*.so"))
	if err != nil {
		t.Fatal(err)
	}
	for _, module := range modules {
		if name := filepath.Base(module); !named[name] && !strings.HasPrefix(name, "lib") {
			t.Errorf("no table names %s", name)
		}
	}
}
