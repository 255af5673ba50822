package commands

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/show"
)

// looked is an admin socket with a workspace, two of a shared volume, and a checkpoint.
func looked() fake {
	ended := time.Now().Add(-time.Hour)
	workspaces := []api.Workspace{
		{ID: "a1", Phase: "mounted", Volume: "one"}, {ID: "b1", Phase: "mounted", Volume: "two", Leases: []string{"c\x1b[31m"}},
		{ID: "b2", Phase: "mounted", Volume: "two"}, {ID: "d1", Phase: "checkpoint", Volume: "gone", EndedAt: &ended},
		{ID: "d2", Phase: "checkpoint", Volume: "gone", EndedAt: &ended}, {ID: "e1", Phase: "ended", Volume: "stuck"},
		{ID: "c1", Phase: "checkpoint", Volume: "left", EndedAt: &ended}, {ID: "f2", Phase: "mounted", Volume: "f1"}, {ID: "f1", Phase: "mounted", Volume: "other"},
	}
	n := int64(2)
	// find answers with the workspaces, or the checkpoints, with an ID.
	find := func(phase string) func(w http.ResponseWriter, r *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			for _, of := range workspaces {
				if of.ID == r.PathValue("id") && (phase == "" || of.Phase == phase) {
					w.Write([]byte(mustJSON(of)))
					return
				}
			}
			refuse(http.StatusNotFound, api.ErrorAnswer{Error: "none"})(w, r)
		}
	}
	return fake{
		"GET /v1/workspaces": func(w http.ResponseWriter, r *http.Request) {
			var list []api.Workspace
			for _, of := range workspaces {
				if name := r.URL.Query().Get("volume"); name == "" || of.Volume == name {
					list = append(list, of)
				}
			}
			w.Write([]byte(mustJSON(map[string]any{"workspaces": list})))
		},
		"GET /v1/workspaces/{id}":  find(""),
		"GET /v1/checkpoints/{id}": find("checkpoint"),
		"GET /v1/checkpoints": map[string]any{"checkpoints": []api.Checkpoint{
			{ID: "c1", Volume: "left", Note: api.Note{Name: "step-1"}}, {ID: "d1", Volume: "gone", Note: api.Note{Name: "twice"}},
			{ID: "d2", Volume: "gone", Note: api.Note{Name: "twice"}}, {ID: "d1", Volume: "gone", Note: api.Note{Name: "other"}},
		}},
		"GET /v1/leases": map[string]any{"leases": []api.Lease{
			{ID: "two/lease", Volume: "two", Workspace: "b1"}, {ID: "csi-1/lease", Volume: "two", Workspace: "b2", Pod: "ns/pod"},
		}},
		"GET /v1/volumes/{name}": func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("name") != "clean" {
				refuse(http.StatusNotFound, api.ErrorAnswer{Error: "none"})(w, r)
				return
			}
			w.Write([]byte(mustJSON(api.Volume{Name: "clean"})))
		},
		"GET /v1/workspaces/{id}/status": api.WorkspaceStatus{
			ID: "a1", Phase: "mounted", Volume: "one", Commit: "c0ffee", Ref: "refs/heads/main", Branch: "main", Head: "beef", Ahead: &n,
			Added: 1, Changed: 1, Ignored: 1, LeftOut: []api.LeftOut{{Path: "fifo", Why: "it is a FIFO"}}, Truncated: "more",
			Changes: []api.WorkspaceChange{
				{Path: "new\x1b[2J\nline", Kind: "added"}, {Path: "x", RawPath: "/3g=", Kind: "changed"}, {Path: "o", Kind: "added", Ignored: true},
			},
		},
		"GET /v1/workspaces/{id}/diff": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("diff of " + r.PathValue("id") + " " + r.URL.RawQuery + "\n"))
		},
		"GET /v1/workspaces/{id}/changes.tar": func(w http.ResponseWriter, r *http.Request) {
			w.Write([]byte("tar of " + r.PathValue("id")))
			if r.URL.RawQuery != "" {
				http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
		},
	}
}

func TestStatus(t *testing.T) {
	got := looked().run(t, "", "status", "one")
	want := `Workspace:  a1 (mounted)
Volume:     one
Commit:     c0ffee refs/heads/main
HEAD:       beef refs/heads/main
Ahead:      2 commits
Changes:    1 added, 1 changed, 0 deleted, 1 ignored
A new\u001b[2J\u000aline
M \xffx
! o
? fifo: it is a FIFO
… more
`
	if got.failed != nil || got.out != want {
		t.Errorf("%v, got\n%s\nwant\n%s", got.failed, got.out, want)
	}
	if got := looked().run(t, "", "status", "--format", "json", "a1x"); got.failed == nil || !strings.Contains(got.failed.Error(), `with a workspace that "a1x" names`) {
		t.Errorf("an unknown name: %v", got.failed)
	}
}

// TestLookup: a word means one workspace, or the error lists what it may mean.
func TestLookup(t *testing.T) {
	settleWait = 0
	defer func() { settleWait = 10 * time.Second }()
	for name, want := range map[string]string{
		"two": "volume \"two\" has 2 workspaces: name one of them by its ID, or its container\n" +
			"  b1  volume two, mounted never by c\\u001b[31m\n  b2  volume two, mounted never",
		"gone":  "volume \"gone\" has left 2 checkpoints: name one of them by its ID\n  d1  volume gone, ended About an hour ago\n  d2  volume gone, ended About an hour ago",
		"stuck": "a workspace of volume \"stuck\" has ended, and something still uses it: run it again when that has ended",
		"d":     "2 IDs begin with \"d\": name one of them\n  d1  volume gone, ended About an hour ago\n  d2  volume gone, ended About an hour ago",
		"f1": "\"f1\" can mean volume \"f1\" and workspace f1: name a workspace by its ID\n" +
			"  f2  volume f1, mounted never\n  f1  volume other, mounted never",
		"other": "\"other\" can mean volume \"other\" and checkpoint d1: name a workspace by its ID\n" +
			"  f1  volume other, mounted never\n  d1  volume gone, ended About an hour ago",
		"e":     "there is no volume, pod, workspace or checkpoint with a workspace that \"e\" names: docker repos leases ls and docker repos checkpoints ls list them",
		"clean": "volume \"clean\" has no workspace now and has left no checkpoint: its files were not changed, or the checkpoint was removed or evicted",
	} {
		if got := looked().run(t, "", "diff", name); got.failed == nil || got.failed.Error() != want {
			t.Errorf("%s: %v, want %s", name, got.failed, want)
		}
	}
	for name, want := range map[string]string{
		"d1": "d1", "a": "a1", "left": "c1", "ns/pod": "b2", "two/lease": "b1", "f2": "f2", "step-1": "c1",
	} {
		if got := looked().run(t, "", "diff", "--ignored", name); got.out != "diff of "+want+" ignored=true\n" || got.failed != nil {
			t.Errorf("%s: %q, %v, want %s", name, got.out, got.failed, want)
		}
	}
}

// TestLookupWaits: a workspace that has just ended becomes a checkpoint in a moment, which docker run is not waited for.
func TestLookupWaits(t *testing.T) {
	ended := time.Now()
	asked := 0
	socket := looked()
	socket["GET /v1/workspaces"] = func(w http.ResponseWriter, r *http.Request) {
		of := api.Workspace{ID: "c1", Phase: "ended", Volume: "left", EndedAt: &ended}
		if asked++; asked > 2 {
			of.Phase = "checkpoint"
		}
		w.Write([]byte(mustJSON(map[string]any{"workspaces": []api.Workspace{of}})))
	}
	if got := socket.run(t, "", "diff", "left"); got.out != "diff of c1 \n" || got.failed != nil {
		t.Errorf("%q, %v", got.out, got.failed)
	}
}

// TestLookupCheckpoint: the commands for checkpoints take the volume of one, and the beginning of an ID.
func TestLookupCheckpoint(t *testing.T) {
	for word, want := range map[string]string{
		"c1": "", "c": "", "left": "", "d": `2 IDs begin with "d"`, "gone": `volume "gone" has left 2 checkpoints`,
		"one": "volume \"one\" has left no checkpoint: its workspace has not ended\n  a1", "nothing": `there is no volume`,
	} {
		removed := ""
		socket := looked()
		socket["DELETE /v1/checkpoints/{id}"] = func(w http.ResponseWriter, r *http.Request) { removed = r.PathValue("id"); w.WriteHeader(204) }
		got := socket.run(t, "", "checkpoints", "rm", word)
		if want == "" && (removed != "c1" || got.failed != nil) || want != "" && (removed != "" || got.failed == nil || !strings.Contains(got.failed.Error(), want)) {
			t.Errorf("%s: removed %q, %v", word, removed, got.failed)
		}
	}
}

// TestExport: a file has its name only when it is complete.
func TestExport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.tar")
	if got := looked().run(t, "", "export", "one", "-o", "-"); got.out != "tar of a1" || got.failed != nil {
		t.Errorf("to standard output: %q, %v", got.out, got.failed)
	}
	if got := looked().run(t, "", "export", "one", "-o", file, "--ignored"); got.failed == nil || !strings.Contains(got.failed.Error(), "not complete") {
		t.Errorf("an answer that ends early: %v", got.failed)
	}
	if list, err := os.ReadDir(filepath.Dir(file)); err != nil || len(list) > 0 {
		t.Errorf("left %v, %v", list, err)
	}
	if got := looked().run(t, "", "export", "one", "-o", file); got.failed != nil {
		t.Error(got.failed)
	}
	if data, err := os.ReadFile(file); string(data) != "tar of a1" {
		t.Errorf("%q, %v", data, err)
	}
	null := filepath.Join(t.TempDir(), "null")
	if err := os.Symlink(os.DevNull, null); err != nil {
		t.Fatal(err)
	}
	if got := looked().run(t, "", "export", "one", "-o", null); got.failed != nil {
		t.Error(got.failed)
	}
	if to, err := os.Readlink(null); err != nil || to != os.DevNull { // a file would be in its place
		t.Errorf("the device was replaced: %q, %v", to, err)
	}
}

// TestExportToOther: what is not a regular file is written to. A rename would replace /dev/null for the
// whole machine.
func TestExportToOther(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0) // so that the command finds a reader
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := looked().run(t, "", "export", "one", "-o", fifo); got.failed != nil {
		t.Fatal(got.failed)
	}
	want := "tar of a1"
	data := make([]byte, len(want))
	if at, err := os.Lstat(fifo); err != nil || at.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("the pipe was replaced: %v, %v", at, err)
	}
	if _, err := io.ReadFull(f, data); err != nil || string(data) != want {
		t.Errorf("%q, %v", data, err)
	}
	if got := looked().run(t, "", "export", "one", "-o", dir); got.failed == nil || !strings.Contains(got.failed.Error(), "is a directory: name a file in it") {
		t.Errorf("to a directory: %v", got.failed)
	}
}

// TestPush: the branches of the arguments. An empty one is not the branch that is checked out, because
// git takes :main for a deletion.
func TestPush(t *testing.T) {
	for arg, want := range map[string]string{
		"": "{}", "a": `{"branch":"a"}`, "a:b": `{"branch":"a","remote_branch":"b"}`, "HEAD:b:c": `{"branch":"HEAD","remote_branch":"b:c"}`,
	} {
		socket := looked()
		socket["POST /v1/workspaces/a1/push"] = func(w http.ResponseWriter, r *http.Request) {
			if got, err := io.ReadAll(r.Body); err != nil || strings.TrimSpace(string(got)) != want {
				t.Errorf("%q: sent %q, %v, want %q", arg, got, err, want)
			}
			w.Write([]byte(`{"result":` + mustJSON(api.PushResult{NewCommit: "c0ffee"}) + "}\n"))
		}
		args := []string{"push", "-q", "one", arg}
		if arg == "" {
			args[3] = "--current"
		}
		if got := socket.run(t, "", args...); got.failed != nil || got.out != "c0ffee\n" {
			t.Errorf("%q: %q, %v", arg, got.out, got.failed)
		}
	}
	socket, warnings := looked(), []string{"object a: badDate: bad date \x1b[31m", "and 7 more findings"}
	socket["POST /v1/workspaces/a1/push"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"result":` + mustJSON(api.PushResult{NewCommit: "c0ffee", Warnings: warnings}) + "}\n"))
	}
	want := "Warning: git fsck: object a: badDate: bad date \\u001b[31m\nWarning: git fsck: and 7 more findings\n"
	if got := socket.run(t, "", "push", "-q", "one", "a"); got.failed != nil || got.out != "c0ffee\n" || got.err != want {
		t.Errorf("with warnings: %q, %q, %v", got.out, got.err, got.failed)
	}
	for _, arg := range []string{":", "a:", ":b"} {
		if got := looked().run(t, "", "push", "one", arg); got.failed == nil || !strings.Contains(got.failed.Error(), "has an empty branch") {
			t.Errorf("%q: %v", arg, got.failed)
		}
	}
}

// TestExportOfCommits: what the flags of a bundle ask for, and that the archive of files has none of them.
func TestExportOfCommits(t *testing.T) {
	for flags, want := range map[string]string{
		"": "", "--branch a/b": "branch=a%2Fb", "--without-lfs": "without_lfs=true", "--branch a --without-lfs": "branch=a&without_lfs=true",
	} {
		socket := looked()
		socket["GET /v1/workspaces/a1/bundle"] = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery != want {
				t.Errorf("%q: asked for %q, want %q", flags, r.URL.RawQuery, want)
			}
			w.Header().Add(api.WarningHeader, "object a: badDate: bad date")
			w.Header().Add(api.WarningHeader, "and 7 more findings")
			io.WriteString(w, "bundle")
		}
		args := append([]string{"export", "one", "--bundle", "-o", "-"}, strings.Fields(flags)...)
		said := "Warning: git fsck: object a: badDate: bad date\nWarning: git fsck: and 7 more findings\n"
		if got := socket.run(t, "", args...); got.failed != nil || got.out != "bundle" || got.err != said {
			t.Errorf("%q: %q, %q, %v", flags, got.out, got.err, got.failed)
		}
	}
	for _, flag := range []string{"--branch=a", "--without-lfs"} {
		if got := looked().run(t, "", "export", "one", "-o", "-", flag); got.failed == nil || !strings.Contains(got.failed.Error(), "is for --bundle") {
			t.Errorf("%s without --bundle: %v", flag, got.failed)
		}
	}
}

// TestPushOfTheCurrentBranch: the branch that the container chose is pushed if the user says so.
func TestPushOfTheCurrentBranch(t *testing.T) {
	pushed := ""
	socket := looked()
	socket["POST /v1/workspaces/a1/push"] = func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		pushed = strings.TrimSpace(string(data))
		w.Write([]byte(`{"result":` + mustJSON(api.PushResult{NewCommit: "c0ffee"}) + "}\n"))
	}
	if got := socket.run(t, "y\n", "push", "one"); got.failed == nil || !strings.Contains(got.failed.Error(), "--current") || pushed != "" {
		t.Errorf("without a terminal: %v, pushed %q", got.failed, pushed)
	}
	if got := socket.run(t, "", "push", "--current", "one", "main"); got.failed == nil || pushed != "" {
		t.Errorf("with both: %v, pushed %q", got.failed, pushed)
	}
	for answer, want := range map[string]string{"y\n": `{"branch":"main"}`, "n\n": "", "\n": ""} {
		keyboard, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer keyboard.Close()
		defer tty.Close()
		if _, err := io.WriteString(keyboard, answer); err != nil {
			t.Fatal(err)
		}
		pushed = ""
		got := runFrom(t, socket.serve(t), tty, "push", "one")
		if pushed != want || (want == "") != (got.failed != nil) {
			t.Errorf("answer %q: pushed %q, %v, want %q", answer, pushed, got.failed, want)
		}
		if !strings.Contains(got.err, "has checked out branch main") {
			t.Errorf("the question is %q", got.err)
		}
	}
}

// TestWhole: a terminal gets whole characters, with control characters escaped.
func TestWhole(t *testing.T) {
	text := "a\x1b[31mü€😀\xff\xe2\x82"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := show.Whole(show.Terminal(&out))
		for at := 0; at < len(text); at += size {
			w.Write([]byte(text[at:min(len(text), at+size)]))
		}
		w.Flush()
		if got, want := out.String(), `a\u001b[31mü€😀\xff\xe2\x82`; got != want {
			t.Errorf("in parts of %d: %q, want %q", size, got, want)
		}
	}
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
