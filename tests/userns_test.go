package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// With --userns-remap a container's root is another user on the host. The options uid and gid name
// that user, and the status of a volume without them says which values to use.
func TestUsernsRemap(t *testing.T) { // not parallel, because it puts another dockerd into PATH
	if testing.Short() {
		t.Skip("it takes long")
	}
	const base = "231072"
	remapping(t, base)
	e, r := own(t, nil, "--userns-remap=nobody:nogroup"), newRemote(t)
	sh := func(volume, script string) string {
		t.Helper()
		return e.docker(t, "run", "--rm", "--network", "none", "--mount", mount(volume), image, "sh", "-euc", inCheckout(script))
	}

	e.create(t, "right", "repo="+r.url, "ref=main", "uid="+base, "gid="+base)
	same(t, "with the uid of the mapped root", sh("right", portrait), plain(t, r.url, "main"))
	got := sh("right", "stat -c %u:%g README.md .git/config; echo mine >mine; git add mine; git commit -qm mine; touch .git/hdcache/npm/x; git status --porcelain")
	if got != "0:0\n0:0" {
		t.Errorf("got %q, want files of root and a clean status", got)
	}
	if got := fmt.Sprint(e.status(t, "right")["userns_remap"]); !strings.Contains(got, base+":"+base) || strings.Contains(got, "no container has") {
		t.Errorf("status: %s", got)
	}

	e.create(t, "wrong", "repo="+r.url, "ref=main")
	if got := sh("wrong", "stat -c %u:%g README.md; touch mine 2>/dev/null || echo refused"); got != "65534:65534\nrefused" {
		t.Errorf("without uid and gid: got %q", got)
	}
	if got := fmt.Sprint(e.status(t, "wrong")["userns_remap"]); !strings.Contains(got, "create it with uid="+base+" and gid="+base) {
		t.Errorf("status: %s", got)
	}

	// The relay is not remapped, because another root could not open the socket.
	out, err := e.reposAs(t, "unix://"+e.Path("sock"), e.group(t), "doctor", "--format", "{{.Name}} {{.Status}} {{.Detail}}").Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || ended.ExitCode() != 1) {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "userns warning") || !strings.Contains(string(out), "DEFAULT_OPTS=uid="+base+",gid="+base) {
		t.Errorf("doctor: %s", out)
	}
	e.wantNoRelay(t)
}

// remapping puts a dockerd into PATH that finds a range of IDs for the user nobody. It runs in its
// own mount namespace, so that the host's files stay unchanged.
func remapping(t *testing.T, base string) {
	t.Helper()
	dir := t.TempDir()
	program, err := exec.LookPath("dockerd")
	if err != nil {
		t.Fatal(err)
	}
	ids := "nobody:" + base + ":65536\n" // both files need the user's name
	for name, text := range map[string]string{
		"subuid": ids, "subgid": ids,
		"dockerd": fmt.Sprintf(`#!/bin/sh
exec unshare --mount sh -ec 'for f in subuid subgid; do mount --bind "$0/$f" "/etc/$f"; done; exec "$@"' %q %q "$@"
`, dir, program),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}
