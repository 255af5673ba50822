package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/wait"
)

// none is an empty set of capabilities.
const none = "0000000000000000"

// TestCapabilities checks which capabilities the threads of the plugin have, and that a process that
// it starts has none.
func TestCapabilities(t *testing.T) {
	p := start(t, "caps", "../../build/plugin/rootfs")
	s := serveHTTP(t)
	dir := mount(t, p, "v", map[string]string{"repo": s.URL("app")})

	// An overlay acts for containers with the plugin's capabilities.
	if err := unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err != nil {
		t.Errorf("mknod in a workspace: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "program"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	// Revision 2 of struct vfs_cap_data, with CAP_NET_BIND_SERVICE permitted and effective.
	capability := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	if err := unix.Setxattr(filepath.Join(dir, "program"), "security.capability", capability, 0); err != nil {
		t.Errorf("setcap in a workspace: %v", err)
	}

	// CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP SYS_ADMIN MKNOD SETFCAP
	const kept = "00000000882001ff"
	wantSets(t, p.Pid(), map[string]string{"CapEff": kept, "CapPrm": kept, "CapBnd": kept, "CapInh": none, "CapAmb": none})

	// The clone that a Create begins gets a part of its pack. Without the blobs git itself fetches it.
	release := make(chan struct{})
	s.Script("app", gitserver.Fetch, gitserver.StallAfter(1000, release))
	defer close(release)
	if err := p.Create(t.Context(), "held", map[string]string{"repo": s.URL("app"), "subject": "other", "filter": "blob:none"}); err != nil {
		t.Fatal(err)
	}
	var children []int
	err := wait.Until(t, func() error {
		if children = gits(p.Pid()); len(children) == 0 {
			return errors.New("no git runs for a pack that the server sends")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, child := range children {
		wantSets(t, child, map[string]string{"CapEff": none, "CapPrm": none, "CapBnd": none, "CapInh": none, "CapAmb": none})
	}
}

// gits returns the descendants of a process that are git: the shell that starts it confines itself
// no further.
func gits(pid int) []int {
	return slices.DeleteFunc(proc.Descendants(pid), func(child int) bool {
		args, err := proc.Args(child)
		return err != nil || len(args) == 0 || !strings.HasSuffix(args[0], "git")
	})
}

// wantSets checks the sets of capabilities of all threads of a process, in hexadecimal.
func wantSets(t *testing.T, pid int, want map[string]string) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Errorf("process %d has no threads: %v", pid, err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			continue // it has ended
		}
		found := 0
		for line := range strings.Lines(string(status)) {
			name, value, _ := strings.Cut(line, ":")
			if wanted, ok := want[name]; ok {
				found++
				if got := strings.TrimSpace(value); got != wanted {
					t.Errorf("%s: %s is %s, want %s", thread, name, got, wanted)
				}
			}
		}
		if found != len(want) {
			t.Errorf("%s: %d of the sets, want %d:\n%s", thread, found, len(want), status)
		}
	}
}
