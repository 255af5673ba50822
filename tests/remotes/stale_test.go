package remotes

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestStaleIfError mounts while the remote fails. stale_if_error helps if the remote gives no
// useful answer, but not if it answers that the login is wrong, or that the repository or the ref
// does not exist.
func TestStaleIfError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		breaks func(s remote)
		ok     bool
		silent bool
	}{
		{"stale_if_error: 503", func(s remote) { s.Route(app, gitserver.Fail(503)) }, true, false},
		{"stale_if_error: silent server", func(s remote) { s.Route(app, gitserver.Stall(nil)) }, true, true},
		{"stale_if_error: server gone", func(s remote) { s.Close() }, true, false},
		{"stale_if_error: pack cut", func(s remote) { s.Route(app, gitserver.On(gitserver.Fetch, gitserver.Cut(100))) }, true, false},
		{"stale_if_error: 404", func(s remote) { s.Route(app, gitserver.Fail(404)) }, false, false},
		{"stale_if_error: 401", func(s remote) { s.Route(app, gitserver.Fail(401)) }, false, false},
		{"stale_if_error: ref gone", func(s remote) { testgit.GitAny(t, s.Path(app), "update-ref", "-d", "refs/heads/release") }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, run := serve(t), start
			if c.silent {
				run = startImpatient
			}
			p := run(t)
			head := testgit.GitAny(t, s.Path(app), "rev-parse", "release")
			for v, within := range map[string]string{"v": "1h", "short": "1ms", "none": "0s"} {
				if err := p.createAndCheck(v, head, "repo="+s.url, "ref=release", "stale_if_error="+within); err != nil {
					t.Fatal(err)
				}
			}
			if got := p.status("v")["stale"]; got != false {
				t.Errorf("stale while the remote answers: %v", got)
			}
			s.commit(t, "release")
			c.breaks(s)

			dir, err := p.mount("v", "1")
			if (err == nil) != c.ok {
				t.Fatalf("mount: %v", err)
			}
			if err != nil {
				addLine(c.name, "mount: "+err.Error())
				return
			}
			defer p.unmount("v", "1")
			file, status := testgit.About(t, dir), p.status("v")
			addLine(c.name, fmt.Sprintf("(works: commit %.8v, stale: %v in helmdeck.json and status)", file["commit"], status["stale"]))
			if file["commit"] != head || file["stale"] != true || status["stale"] != true {
				t.Errorf("helmdeck.json: %v\nstatus: %v\nwant commit %s and stale", file, status, head)
			}
			for _, v := range []string{"short", "none"} {
				if _, err := p.mount(v, "1"); err == nil {
					t.Errorf("volume %q mounts too, want an error", v)
				}
			}
		})
	}
}

// With stale_if_error a Mount answers within MOUNT_WAIT even if that is shorter than the timeout
// for asking the remote.
func TestStaleWithinMountWait(t *testing.T) {
	t.Parallel()
	s, p := serve(t), start(t)
	if err := p.createAndCheck("v", s.head, "repo="+s.url, "stale_if_error=1h"); err != nil {
		t.Fatal(err)
	}
	p.restart("MOUNT_WAIT=3s")
	s.Route(app, gitserver.Stall(nil))
	dir, err := p.mount("v", "1")
	if err != nil {
		t.Fatal(err)
	}
	if got := testgit.About(t, dir)["stale"]; got != true {
		t.Errorf("stale: %v", got)
	}
	p.unmount("v", "1")
}

// TestProgress clones over a slow connection. The status and the error of a mount that does not
// wait for the end show the progress.
func TestProgress(t *testing.T) {
	t.Parallel()
	s, p := serve(t), start(t, "MOUNT_WAIT=3s")
	var changes []gitserver.Change
	for i := range 6 {
		changes = append(changes, gitserver.Change{Path: fmt.Sprint("noise", i), Content: noise(300_000)})
	}
	head, err := gitserver.Commit(s.Path(app), "main", changes...)
	if err != nil {
		t.Fatal(err)
	}
	s.Route(app, gitserver.On(gitserver.Fetch, gitserver.Drip(60_000, 250*time.Millisecond)))
	if err := p.create("v", "repo="+s.url); err != nil {
		t.Fatal(err)
	}
	progress := regexp.MustCompile(`^receiving objects \d+% \([\d.]+ [KM]iB, [\d.]+ [KM]iB/s\)$`)
	p.await("the status shows phase, percent, bytes and rate", func() error {
		status := p.status("v")
		if status["state"] != "cloning" || !progress.MatchString(fmt.Sprint(status["progress"])) {
			return fmt.Errorf("%v: %v", status["state"], status["progress"])
		}
		return nil
	})
	addLine("progress: in the status", fmt.Sprint(p.status("v")["state"], ": ", p.status("v")["progress"]))
	_, err = p.mount("v", "gone")
	if err := checkError(err, "cloning "+s.url+": receiving objects", "%", "iB/s", "not done after 3s", "continues in the background", "run it again"); err != nil {
		t.Error(err)
	}
	addLine("progress: in the mount's error", "mount: "+fmt.Sprint(err))
	p.await("a later mount", func() error {
		err := p.mountAndCheck("v", head)
		if err != nil && !strings.Contains(err.Error(), "continues in the background") {
			t.Fatal(err)
		}
		return err
	})
	if got := s.Stats(app).Clones; got != 1 {
		t.Errorf("%d clones, want 1, which continues", got)
	}
	if status := p.status("v"); status["state"] != "ready" || status["progress"] != "" {
		t.Errorf("at the end: %v, %v", status["state"], status["progress"])
	}
}
