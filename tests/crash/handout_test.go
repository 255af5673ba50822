package crash

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/tests/wait"
)

func init() {
	handing := func(w *world) { w.must(w.create("handing", cold, "auth=container"), w.mountUnchanged("handing", "h")) }
	scenarios = append(scenarios, scenario{
		name: "mount with a credential helper", prepare: handing,
		do: func(w *world) error {
			for _, step := range []func() error{ // one after the other: none can be done after the crash
				func() error { return w.wantServed(1) },
				func() error { return w.mountUnchanged("handing", w.id("i")) },
				func() error { return w.wantServed(2) },
				func() error { return w.unmount("handing", w.id("i")) },
				func() error { return w.wantServed(1) },
			} {
				if err := step(); err != nil {
					return err
				}
			}
			return nil
		},
		points: []string{"handout/serve/listening:2", "handout/end/closed"}, // the start serves the first workspace
	}, scenario{
		name: "start with a credential helper", prepare: handing,
		points: []string{"handout/serve/listening"},
	})
}

// wantServed waits until n sockets of credential helpers take connections, and no other is there.
func (w *world) wantServed(n int) error {
	return wait.Until(w, func() error {
		sockets, err := filepath.Glob(w.path("clones/*/*/workspaces/*/helper/socket"))
		if err == nil && len(sockets) != n {
			err = fmt.Errorf("%d sockets of credential helpers, want %d: %q", len(sockets), n, sockets)
		}
		for _, socket := range sockets {
			err = errors.Join(err, connect(socket))
		}
		return err
	})
}

// connect connects to a socket, whose path may be longer than that of a socket can be.
func connect(socket string) error {
	dir, err := os.Open(filepath.Dir(socket))
	if err != nil {
		return err
	}
	defer dir.Close()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
	if err != nil {
		return err
	}
	return conn.Close()
}
