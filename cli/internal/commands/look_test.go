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

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/show"
)

// looked is an admin socket with a workspace, two of a shared volume, and a discard.
func looked() fake {
	ended := time.Now().Add(-time.Hour)
	workspaces := []api.Workspace{
		{ID: "a1", Phase: "mounted", Volume: "one"}, {ID: "b1", Phase: "mounted", Volume: "two", Leases: []string{"c\x1b[31m"}},
		{ID: "b2", Phase: "mounted", Volume: "two"}, {ID: "d1", Phase: "discarded", Volume: "gone", EndedAt: &ended}, {ID: "e1", Phase: "ended", Volume: "gone"},
	}
	n := int64(2)
	return fake{
		"GET /v1/workspaces": func(w http.ResponseWriter, r *http.Request) {
			var list []string
			for _, ws := range workspaces {
				if ws.Volume == r.URL.Query().Get("volume") {
					list = append(list, mustJSON(ws))
				}
			}
			w.Write([]byte(`{"workspaces":[` + strings.Join(list, ",") + `]}`))
		},
		"GET /v1/workspaces/{id}": func(w http.ResponseWriter, r *http.Request) {
			if r.PathValue("id") != "d1" {
				refuse(http.StatusNotFound, api.ErrorAnswer{Error: "none"})(w, r)
				return
			}
			w.Write([]byte(mustJSON(api.WorkspaceDetail{Workspace: workspaces[3]})))
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
	if got := looked().run(t, "", "status", "--json", "a1x"); got.failed == nil || !strings.Contains(got.failed.Error(), "there is no volume with a workspace") {
		t.Errorf("an unknown name: %v", got.failed)
	}
}

// TestLookup: a name means one workspace, or the error lists what it may mean.
func TestLookup(t *testing.T) {
	for name, want := range map[string]string{
		"two":  "volume \"two\" has 2 workspaces: name one of them by its ID\n  b1  mounted never by c\\u001b[31m\n  b2  mounted never",
		"gone": "volume \"gone\" has no workspace now, but has left these discards: name one of them\n  d1  ended About an hour ago",
	} {
		if got := looked().run(t, "", "diff", name); got.failed == nil || got.failed.Error() != want {
			t.Errorf("%s: %v, want %s", name, got.failed, want)
		}
	}
	if got := looked().run(t, "", "diff", "--ignored", "d1"); got.out != "diff of d1 ignored=true\n" || got.failed != nil {
		t.Errorf("a discard by its ID: %q, %v", got.out, got.failed)
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
		args := []string{"push", "-q", "one"}
		if arg != "" {
			args = append(args, arg)
		}
		if got := socket.run(t, "", args...); got.failed != nil || got.out != "c0ffee\n" {
			t.Errorf("%q: %q, %v", arg, got.out, got.failed)
		}
	}
	for _, arg := range []string{":", "a:", ":b"} {
		if got := looked().run(t, "", "push", "one", arg); got.failed == nil || !strings.Contains(got.failed.Error(), "has an empty branch") {
			t.Errorf("%q: %v", arg, got.failed)
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
