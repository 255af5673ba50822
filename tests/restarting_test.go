package tests

import (
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// If the plugin's process ends while it works on a request, the error says what to do. A request
// that comes while the plugin is down waits.
func TestPluginEndsDuringMount(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	e.create(t, "slow", "repo="+r.url, "ref=main", "subject=slow")
	e.sh(t, mount("slow"), "true") // so that the next mount only asks the remote
	for _, c := range []struct {
		name string
		end  func()
		want string
	}{
		{"killed", func() {
			if err := syscall.Kill(e.pluginPID(t, 0), syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}, "was restarted while it was at work on this: run it again"},
		{"disabled", func() { e.disable(t) }, "run it again when the plugin is enabled"},
	} {
		pid := e.pluginPID(t, 0)
		asked, release := stallAndReport(t, r)
		answer := make(chan error, 1)
		go func() {
			_, err := e.Try(shArgs(mount("slow"), "true")...)
			answer <- err
		}()
		<-asked
		c.end()
		if err := <-answer; err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		release()
		if c.name == "disabled" {
			e.enable(t)
		}
		e.pluginPID(t, pid)
		for _, id := range strings.Fields(e.docker(t, "ps", "--all", "--quiet")) {
			e.docker(t, "rm", "--force", id) // docker run leaves the container, which never started
		}
	}
	pid := e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	same(t, "a mount while the plugin is down", e.sh(t, mount("slow"), portrait), plain(t, r.url, "main"))
	e.pluginPID(t, pid)
	e.docker(t, "volume", "rm", "slow")
	e.awaitReclaimed(t, "slow")
}

// stallAndReport makes the server answer nothing until release is called. The channel gets a value
// for each request.
func stallAndReport(t *testing.T, r remote) (asked <-chan struct{}, release func()) {
	t.Helper()
	arrived, wait := make(chan struct{}, 1000), make(chan struct{})
	release = sync.OnceFunc(func() {
		r.Wrap(nil)
		close(wait)
	})
	t.Cleanup(release)
	r.Wrap(func(next http.Handler) http.Handler {
		stalled := gitserver.Stall(wait)(next)
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			arrived <- struct{}{}
			stalled.ServeHTTP(w, req)
		})
	})
	return arrived, release
}
