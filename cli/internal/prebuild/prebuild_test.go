package prebuild

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

func TestDecide(t *testing.T) {
	state := func(exact bool, label, commit string) api.WarmState {
		return api.WarmState{Path: "p", Exact: exact, Label: label, Commit: commit, Why: "why"}
	}
	mine, moved, none := state(true, "mine", "c1"), state(true, "mine", "c0"), state(false, "mine", "c1")
	for _, c := range []struct {
		what    string
		states  []api.WarmState
		updates bool
		want    string
	}{
		{"no state", []api.WarmState{none}, true, Setup},
		{"ready", []api.WarmState{mine, mine}, true, Nothing},
		{"one of two is missing", []api.WarmState{mine, none}, true, Setup},
		{"the first has moved, the second is missing", []api.WarmState{moved, none}, true, Setup},
		{"another label", []api.WarmState{state(true, "other", "c1")}, true, Setup},
		{"without a label", []api.WarmState{state(true, "", "c1")}, false, Setup},
		{"another commit", []api.WarmState{moved}, false, Nothing},
		{"another commit, with update", []api.WarmState{moved}, true, Update},
		{"one of another commit, with update", []api.WarmState{mine, moved}, true, Update},
	} {
		got, why, err := decide(api.WarmResult{Commit: "c1", States: c.states}, "mine", c.updates)
		if got != c.want || (why == "") != (got == Nothing) || err != nil {
			t.Errorf("%s: got %s, %q, %v, want %s", c.what, got, why, err, c.want)
		}
	}
	out := none
	out.LeftOut = true
	if _, _, err := decide(api.WarmResult{Commit: "c1", States: []api.WarmState{none, out}}, "mine", false); err == nil || !strings.HasPrefix(err.Error(), "p can't be a warm directory at c1: why") {
		t.Errorf("left out: got %v", err)
	}
}

func TestRun(t *testing.T) {
	other := "prebuild of another image"
	for _, c := range []struct {
		what   string
		world  func(*world)
		job    func(*Job)
		did    string
		log    string
		failed string
	}{
		{what: "the first", did: Setup, log: "run npm ci"},
		{what: "the second", world: func(w *world) { w.exact = mine(w, "c1") }, did: Nothing},
		{what: "another commit", world: func(w *world) { w.exact = mine(w, "c0") }, did: Nothing},
		{what: "another commit with update", job: func(j *Job) { j.Update = "npm i" }, world: func(w *world) { w.exact = mine(w, "c0", "npm i") }, did: Update, log: "run npm i"},
		{what: "another label", world: func(w *world) { w.exact = mine(w, "c1"); w.exact.Label = other }, did: Setup, log: "run npm ci"},
		{what: "an image that is missing", job: func(j *Job) { j.Image = "new" }, did: Setup, log: "pull new,run npm ci"},
		{what: "a variable that is not set", job: func(j *Job) { j.Env = []string{"PREBUILD_TEST_NONE"} }, failed: `the variable "PREBUILD_TEST_NONE" is not set`},
		{
			what: "a command that fails", world: func(w *world) { w.run = func(*world, string) (string, int) { return "oops", 3 } },
			did: Setup, log: "run npm ci", failed: "the setup command failed with exit code 3",
		},
		{
			what: "a state that is not there", world: func(w *world) {
				w.run = func(w *world, _ string) (string, int) {
					go func() { time.Sleep(pause / 2); w.mu.Lock(); w.exact = nil; w.mu.Unlock() }()
					return "", 0
				}
			},
			did: Setup, log: "run npm ci", failed: "its state is not there: node_modules has no state of its own: there is none yet",
		},
		{
			what: "a push meanwhile", world: func(w *world) {
				w.run = func(w *world, _ string) (string, int) {
					if w.commit != "c3" {
						go func() {
							time.Sleep(pause / 2)
							w.mu.Lock()
							w.exact, w.commit = nil, fmt.Sprintf("c%d", 1+len(w.log))
							w.mu.Unlock()
						}()
					}
					return "", 0
				}
			},
			did: Setup, log: "run npm ci,run npm ci,run npm ci",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, j := newWorld(), job()
			if c.job != nil {
				c.job(&j)
			}
			if c.world != nil {
				c.world(w)
			}
			p, _ := w.prebuilder()
			r, err := p.Run(t.Context(), j)
			if r.Did != c.did || strings.Join(w.log, ",") != c.log {
				t.Errorf("%s: got %q and %q, want %q and %q", c.what, r.Did, w.log, c.did, c.log)
			}
			if c.failed == "" && err != nil || c.failed != "" && (err == nil || !strings.Contains(err.Error(), c.failed)) {
				t.Errorf("%s: got %v, want %q", c.what, err, c.failed)
			}
			w.clean(t)
		})
	}
}

// TestPublished checks what happens if the end of a command that succeeded is not as it should be.
func TestPublished(t *testing.T) {
	for _, c := range []struct {
		what           string
		world          func(*world)
		failed, warned string
	}{
		{"the plugin restarts", func(w *world) { w.lost = 100 }, "", ""},
		{"the plugin stays away", func(w *world) { w.lost = 1 << 30 }, "the plugin has not published the state within 10m0s", ""},
		{"another one removes the checkpoint", func(w *world) { w.busy = &api.Error{Status: 404} }, "", ""},
		{"the checkpoint is in use", func(w *world) { w.busy = &api.Error{Status: 409} }, "", ""},
		{"the checkpoint stays", func(w *world) { w.busy = &api.Error{Status: 500, Message: "broken"} }, "remove the checkpoint ws: broken", ""},
		{"the volume stays", func(w *world) { w.stays = true }, "", "it stays"},
		{"the volume stays after a failure", func(w *world) {
			w.stays, w.run = true, func(*world, string) (string, int) { return "", 3 }
		}, "it stays", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			c.world(w)
			p, _ := w.prebuilder()
			warned := ""
			p.Warn = func(err error) { warned += err.Error() }
			_, err := p.Run(t.Context(), job())
			if c.failed == "" && err != nil || c.failed != "" && (err == nil || !strings.Contains(err.Error(), c.failed)) {
				t.Errorf("%s: got %v, want %q", c.what, err, c.failed)
			}
			if !strings.HasSuffix(warned, c.warned) || (warned == "") != (c.warned == "") {
				t.Errorf("%s: warned of %q, want %q", c.what, warned, c.warned)
			}
		})
	}
}

// mine returns the state that the test's job has made at a commit.
func mine(w *world, commit string, update ...string) *api.WarmState {
	j := job()
	j.Update = strings.Join(update, "")
	return &api.WarmState{Path: "node_modules", Exact: true, Commit: commit, Label: j.Label(w.images[j.Image])}
}

// TestContainer checks what the container of a command is.
func TestContainer(t *testing.T) {
	t.Setenv("PREBUILD_TEST_TOKEN", "secret")
	synctest.Test(t, func(t *testing.T) {
		w, j := newWorld(), job()
		j.Options["uid"], j.Env, j.Network, j.Target = "7", []string{"PREBUILD_TEST_TOKEN", "A=b"}, "none", "/src"
		w.run = func(w *world, command string) (string, int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for name, o := range w.containers {
				m := o.HostConfig.Mounts[0]
				if m.Source != name || m.Target != "/src" || m.VolumeOptions.Labels[label] != name || o.Config.Labels[label] != name {
					t.Errorf("got %+v, %+v", o.Config, m)
				}
				want := map[string]string{"repo": j.Repo, "publish": "marked", "mode": "private", "warm": "node_modules", "subject": "s", "uid": "7"}
				if d := m.VolumeOptions.DriverConfig; !maps.Equal(d.Options, want) || d.Name != "helmdeck/repos" {
					t.Errorf("got %+v, want %q", d, want)
				}
				if o.Config.User != "7:0" || o.Config.Image != "sha256:node" || o.HostConfig.NetworkMode != "none" || o.HostConfig.LogConfig.Type != "none" {
					t.Errorf("got %+v, %+v", o.Config, o.HostConfig)
				}
				if want := []string{"PREBUILD_TEST_TOKEN=secret", "A=b"}; !slices.Equal(o.Config.Env, want) {
					t.Errorf("got %q", o.Config.Env)
				}
				if want := []string{"prebuild", "npm ci", j.Label("sha256:node"), "/src"}; !slices.Equal(o.Config.Cmd, want) {
					t.Errorf("got %q", o.Config.Cmd)
				}
			}
			return "printed", 0
		}
		p, out := w.prebuilder()
		if _, err := p.Run(t.Context(), j); err != nil || out.String() != "printed" {
			t.Errorf("got %q and %v", out, err)
		}
		w.clean(t)
	})
}

// TestTimeout checks that a command has the timeout of its job, and that the error says whether its container is left.
func TestTimeout(t *testing.T) {
	for _, runsOn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, j := newWorld(), job()
			w.hangs, w.runsOn = true, runsOn
			j.Timeout = time.Minute
			p, _ := w.prebuilder()
			begin := time.Now()
			_, err := p.Run(t.Context(), j)
			if late, ok := errors.AsType[*TimeoutError](err); !ok || late.Command != Setup || time.Since(begin) != time.Minute {
				t.Errorf("got %v after %v", err, time.Since(begin))
			}
			for name := range w.containers {
				if want := "remove the container " + name + ": it runs on"; err == nil || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if left := len(w.containers) > 0; left != runsOn {
				t.Errorf("the container is left: %v, want %v", left, runsOn)
			}
			clear(w.containers)
			w.clean(t) // an engine that fails to remove a container may remove the volume
		})
	}
}

func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.hangs, w.started = true, make(chan struct{})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-w.started
			cancel(errors.New("a signal"))
		}()
		p, _ := w.prebuilder()
		if _, err := p.Run(ctx, job()); err == nil || !strings.HasPrefix(err.Error(), "a signal") {
			t.Errorf("got %v", err)
		}
		w.clean(t)
	})
}

// TestSweep checks that a prebuild removes what a killed one has left, and nothing else.
func TestSweep(t *testing.T) {
	w := newWorld()
	add := func(name, of string, state container.ContainerState, created int64) {
		w.old = append(w.old, container.Summary{ID: name, Names: []string{"/" + name}, Labels: map[string]string{label: of}, State: state, Created: created})
		w.volumes[name] = map[string]string{label: of}
	}
	add("ended", "ended", container.StateExited, long)
	add("never-started", "never-started", container.StateCreated, long)
	add("starting", "starting", container.StateCreated, time.Now().Unix())
	add("running", "running", container.StateRunning, long)
	add("of-its-image", "ended", container.StateExited, long)
	for name, until := range map[string]time.Duration{"overdue": -time.Hour, "ending": -time.Second, "in-time": time.Hour} {
		add(name, name, container.StateRunning, long)
		w.old[len(w.old)-1].Labels[untilLabel] = strconv.FormatInt(time.Now().Add(until).Unix(), 10)
	}
	w.volumes["alone"] = map[string]string{label: "alone"}
	w.imported["sha256:old"] = client.ImageImportOptions{Changes: []string{"LABEL " + label + "=" + emptyImage}}
	w.born = long
	p, _ := w.prebuilder()
	p.sweep(t.Context())
	if len(w.imported) > 0 {
		t.Errorf("left are %v", w.imported)
	}
	want := []string{"ending", "in-time", "of-its-image", "running", "starting"}
	var left []string
	for _, c := range w.old {
		left = append(left, c.ID)
	}
	slices.Sort(left)
	if got := slices.Sorted(maps.Keys(w.volumes)); !slices.Equal(got, want) || !slices.Equal(left, want) {
		t.Errorf("left are %q and %q, want %q", left, got, want)
	}
}

// TestDevcontainer checks that the image and the commands come from the repository.
func TestDevcontainer(t *testing.T) {
	const file = `{"image": "node", "onCreateCommand": "npm ci"}`
	for _, c := range []struct {
		what   string
		files  map[string][]byte
		failed string
	}{
		{"a directory", map[string][]byte{"/w/.devcontainer/devcontainer.json": []byte(file), "/w/.devcontainer.json": []byte("{")}, ""},
		{"a file", map[string][]byte{"/w/.devcontainer.json": []byte(file)}, ""},
		{"none", nil, "https://h/app has neither .devcontainer/devcontainer.json nor .devcontainer.json at c1"},
		{"a link", map[string][]byte{"/w/.devcontainer.json": nil}, "/w/.devcontainer.json is not a regular file"},
		{"too large", map[string][]byte{"/w/.devcontainer.json": make([]byte, maxDevcontainer+1)}, "has 65537 bytes: at most 65536 are read"},
		{"wrong", map[string][]byte{"/w/.devcontainer.json": []byte("{}")}, ".devcontainer.json of https://h/app: it has no image"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.files = c.files
			p, _ := w.prebuilder()
			j := job()
			j.Image, j.Setup, j.Devcontainer = "", "", true
			r, err := p.Run(t.Context(), j)
			if c.failed == "" && (err != nil || r.Did != Setup || strings.Join(w.log, ",") != "run npm ci") {
				t.Errorf("%s: got %+v, %q, %v", c.what, r, w.log, err)
			}
			if c.failed != "" && (err == nil || !strings.Contains(err.Error(), c.failed)) {
				t.Errorf("%s: got %v, want %q", c.what, err, c.failed)
			}
			w.clean(t)
		})
	}
}

// TestDevcontainerMoves checks that the file is that of the commit that is built, also if the branch moves meanwhile, and
// that a container that is gone says nothing about the file.
func TestDevcontainerMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, j := newWorld(), job()
		j.Image, j.Setup, j.Devcontainer = "", "", true
		file := func(command string) map[string][]byte {
			return map[string][]byte{"/w/.devcontainer.json": fmt.Appendf(nil, `{"image": "node", "onCreateCommand": %q}`, command)}
		}
		w.files = file("first")
		w.run = func(w *world, _ string) (string, int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.commit, w.files = "c2", file("second")
			return "", 0
		}
		p, _ := w.prebuilder()
		r, err := p.Run(t.Context(), j)
		j.Image, j.Setup = "node", "second"
		if want := j.Label("sha256:node"); err != nil || strings.Join(w.log, ",") != "run first,run second" || r.Label != want || r.Commit != "c2" {
			t.Errorf("got %+v, %q, %v", r, w.log, err)
		}
		w.files, w.swept, j.Image, j.Setup = nil, true, "", ""
		if _, err := p.Run(t.Context(), j); err == nil || !strings.Contains(err.Error(), "no such container") || strings.Contains(err.Error(), "neither") {
			t.Errorf("got %v", err)
		}
		w.clean(t)
	})
}

// TestScript runs the script of a container with a real shell.
func TestScript(t *testing.T) {
	for command, want := range map[string]string{
		"echo one; cd /; exec true": "a label", "true": "a label", "exit 3": "", "(": "", "set -e; false; true": "", "kill -9 $$": "",
		"echo mine >.git/helmdeck-publish; exit 3": "", "mkdir .git/helmdeck-publish; exit 3": "", "echo mine >.git/helmdeck-publish": "a label",
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
			t.Fatal(err)
		}
		err := exec.Command("sh", "-c", script, "prebuild", command, "a label", dir).Run()
		got, _ := os.ReadFile(filepath.Join(dir, ".git/helmdeck-publish"))
		if ended, ok := err.(*exec.ExitError); strings.HasSuffix(command, "exit 3") && (!ok || ended.ExitCode() != 3) {
			t.Errorf("%s: got %v", command, err)
		}
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q and %v, want %q", command, got, err, want)
		}
	}
	// There is no room for the mark.
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := exec.Command("sh", "-c", `trap "" XFSZ; ulimit -f 0; exec sh -c "$@"`, "full", script, "prebuild", "true", "a label", dir).Run()
	if left, _ := os.ReadDir(filepath.Join(dir, ".git")); err == nil || len(left) > 0 {
		t.Errorf("without room for the mark: %v, %v is left", err, left)
	}
}
