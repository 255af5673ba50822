// Package doctor tests that `docker repos doctor` finds faults. Each fault is planted in a world of its own:
// the plugin's program with its own data directory, remotes, and the command that asks it over the admin
// socket. The same world without the fault is the control: there the check is ok. The tests need root and
// the command (make cli), and fail without them.
package doctor

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/built"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
)

// command is the command of docker repos.
const command = "../../build/docker-repos"

// program is the plugin's program, built for this run.
var program string

func TestMain(m *testing.M) {
	daemon.Main("doctor", nil, func(_, path string) (int, error) {
		program = path
		if err := built.Check(built.Command); err != nil {
			return 1, err
		}
		return m.Run(), nil
	})
}

// fault is what a test plants.
type fault struct {
	name   string
	check  string // the check that finds it
	status string
	words  []string // in what it says
	// world prepares the fault's world and its control, before the plugin starts.
	world func(w *world)
	disk  func(dir string) error
	// before plants the fault before the plugin's start, and after when it runs.
	before, after func(w *world)
}

const secret = "s3cret-of-the-test"

var faults = []fault{
	{
		name: "remote unreachable", check: "remote", status: api.Failed, words: []string{"connection refused", "nothing listens"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { s := served(w.t); w.volume(s.URL("sample")); s.Close() },
	},
	{
		name: "name without an address", check: "remote", status: api.Failed, words: []string{"no-such-host.invalid", "host unknown", "name servers"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume("https://no-such-host.invalid/r") },
	},
	{
		name: "remote that is silent", check: "remote", status: api.Failed, words: []string{"timeout", "did not answer in time"},
		world: func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) {
			s := served(w.t)
			s.Route("sample", func(http.Handler) http.Handler {
				return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			})
			w.volume(s.URL("sample"))
		},
	},
	{
		name: "certificate has expired", check: "remote", status: api.Failed, words: []string{"has expired", "renew it"},
		world:  func(w *world) { w.trust(w.t) },
		before: func(w *world) { w.trust(w.t, gitserver.Expired) },
	},
	{
		name: "certificate of another host", check: "remote", status: api.Failed, words: []string{"certificate", "the name that the certificate is for"},
		world:  func(w *world) { w.trust(w.t) },
		before: func(w *world) { w.trust(w.t, gitserver.WrongName) },
	},
	{
		name: "certificate of an unknown authority", check: "remote", status: api.Failed, words: []string{"unknown authority", "CA_BUNDLE"},
		world:  func(w *world) { w.trust(w.t) },
		before: func(w *world) { w.volume(servedTLS(w.t).URL("sample")) },
	},
	{
		name: "credential missing", check: "remote", status: api.Failed, words: []string{"authentication failed", "store a credential"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume(guarded(w.t).URL("sample")) },
	},
	{
		name: "credential refused", check: "remote", status: api.Failed, words: []string{`refused the stored credential "mine"`},
		world:  func(w *world) { s := guarded(w.t); w.volume(s.URL("sample")); w.put(s, secret) },
		before: func(w *world) { s := guarded(w.t); w.volume(s.URL("sample")); w.put(s, "wrong") },
	},
	{
		name: "credential named and removed", check: "remote", status: api.Failed, words: []string{`no credential "lost"`, "credentials put"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume(served(w.t).URL("sample"), "credential", "lost") },
	},
	{
		name: "repository with a scheme that is not allowed", check: "remote", status: api.Failed, words: []string{"ssh://127.0.0.1", "ALLOW_SCHEMES=ssh"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.volume("ssh://git@127.0.0.1/r") },
	},
	{
		name: "credential for a scheme that is not allowed", check: "credential", status: api.Failed, words: []string{"hosts", "ALLOW_SCHEMES=ssh"},
		after: func(w *world) {
			err := w.plugin.Admin.PutCredential(w.t.Context(), "hosts", api.PutCredential{Kind: api.KnownHosts, Scope: "ssh://h.example", Secret: knownHost})
			if err != nil {
				w.t.Fatal(err)
			}
		},
	},
	{
		name: "disk nearly full", check: "disk", status: api.Failed, words: []string{"MIN_FREE", "docker repos df"},
		world: func(w *world) { w.env = append(w.env, "MIN_FREE=20%") },
		disk:  func(dir string) error { return testdisk.Ext4(dir, 128<<20) },
		after: func(w *world) {
			space, err := disk.SpaceOf(w.data)
			if err == nil {
				err = os.WriteFile(filepath.Join(w.data, "lost+found/filler"), make([]byte, space.Free.Bytes-space.Total.Bytes*15/100), 0o600)
			}
			if err != nil {
				w.t.Fatal(err)
			}
		},
	},
	{
		name: "inodes nearly used up", check: "inodes", status: api.Failed, words: []string{"inodes are free", "docker repos df"},
		world: func(w *world) { w.env = append(w.env, "MIN_FREE=20%") },
		disk:  func(dir string) error { return testdisk.Ext4(dir, 128<<20, "-N", "1000") },
		after: func(w *world) {
			for i := range 850 {
				if err := os.WriteFile(filepath.Join(w.data, fmt.Sprint("lost+found/", i)), nil, 0o600); err != nil {
					w.t.Fatal(err)
				}
			}
		},
	},
	{
		name: "limit smaller than a clone", check: "budget", status: api.Failed, words: []string{"more than MAX_SIZE", "raise the limit"},
		world:  func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) { w.env = append(w.env, "MAX_SIZE=4KiB") },
	},
	{
		name: "settings that do not fit", check: "settings", status: api.Warning, words: []string{"SUBJECT_MAX_SIZE is 2.0 MiB", "below MAX_SIZE"},
		world:  func(w *world) { w.env = append(w.env, "SUBJECT_MAX_SIZE=2MiB", "MAX_SIZE=3MiB") },
		before: func(w *world) { w.env = append(w.env, "MAX_SIZE=1MiB") },
	},
	{
		name: "clock put back", check: "clock", status: api.Failed, words: []string{"a record of", "set the clock"},
		world: func(w *world) { w.volume(served(w.t).URL("sample")) },
		before: func(w *world) {
			w.volumes[0].CreatedAt = time.Now().Add(time.Hour)
		},
	},
	{
		name: "clocks that differ", check: "clock", status: api.Failed, words: []string{"the clock of the plugin is", "ahead of this machine's"},
		after: func(w *world) { w.args = []string{"--socket", w.ahead(time.Hour)} },
	},
	{
		name: "plugin disabled", check: "plugin", status: api.Failed, words: []string{"is disabled", "docker plugin enable --timeout 120"},
		after: func(w *world) { w.host, w.args = engineWith(w.t, false), []string{} },
	},
	{
		name: "plugin stopped", check: "socket", status: api.Failed, words: []string{"nobody listens"},
		after: func(w *world) { w.plugin.Kill() },
	},
	{
		name: "engine away", check: "engine", status: api.Failed, words: []string{"start the engine"},
		after: func(w *world) { w.host, w.args = "unix:///nonexistent.sock", []string{} },
	},
}

func TestDoctor(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			short.OneOf(t, 3)
			t.Parallel()
			for _, c := range examine(t, f, false) {
				if c.Name == f.check && c.Status != api.OK {
					t.Errorf("without the fault: got %+v", c)
				}
			}
			checks := examine(t, f, true)
			for _, c := range checks {
				if found := c.Target + " " + c.Text + " " + c.Remedy; c.Name == f.check && c.Status == f.status && c.Remedy != "" && containsAll(found, f.words) {
					t.Logf("%s: %s; to do: %s", c.Name, c.Text, c.Remedy)
					return
				}
			}
			t.Errorf("not found: %s with %q among %+v", f.check, f.words, checks)
		})
	}
}

// examine makes a world, with the fault or without, and examines it.
func examine(t *testing.T, f fault, planted bool) []api.Check {
	t.Helper()
	dir := testdir.New(t, "doctor")
	w := &world{t: t, dir: dir, data: filepath.Join(dir, "data"), host: "unix:///nonexistent.sock"}
	if f.disk != nil {
		w.data = testdisk.Small(t, f.disk)
	} else if err := os.MkdirAll(w.data, 0o755); err != nil {
		t.Fatal(err)
	}
	if f.world != nil {
		f.world(w)
	}
	if planted && f.before != nil {
		f.before(w)
	}
	w.start()
	if f.check == "budget" {
		w.mount()
	}
	if planted && f.after != nil {
		f.after(w)
	}
	return w.doctor()
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
