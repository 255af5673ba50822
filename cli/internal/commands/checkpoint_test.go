package commands

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

// TestCheckpoint: standard output has the ID alone. Without an engine no container is paused.
func TestCheckpoint(t *testing.T) {
	const id = "0123456789abcdef"
	of := func(word string) fake {
		p := looked()
		p["POST /v1/workspaces/{id}/draft"] = func(w http.ResponseWriter, r *http.Request) {
			var n api.Note
			if err := json.NewDecoder(r.Body).Decode(&n); err != nil || r.PathValue("id") != word || n != (api.Note{Name: "step-1", Message: "a message"}) {
				t.Errorf("%s: got %+v, %v", r.URL, n, err)
			}
			json.NewEncoder(w).Encode(api.Draft{ID: id, Made: word == "d1"})
		}
		p["GET /v1/checkpoints/"+id] = api.Checkpoint{ID: id}
		p["POST /v1/drafts/"+id+"/catch-up"] = api.Draft{ID: id}
		p["POST /v1/drafts/"+id+"/keep"] = api.Checkpoint{ID: id}
		return p
	}
	for word, want := range map[string]string{
		"a1": "0 files and directories",                                // nobody uses it
		"b1": "no container was paused, because the engine knows none", // it has a lease
		"d1": "It is a checkpoint already",
	} {
		got := of(word).run(t, "", "checkpoint", "-m", "a message", word, "step-1")
		if got.failed != nil || got.out != id+"\n" || !strings.Contains(got.err, want) || strings.Contains(got.err, "paused") != (word == "b1") {
			t.Errorf("%s: %q, %q, %v", word, got.out, got.err, got.failed)
		}
	}
	for _, tt := range []struct {
		args string
		made api.Checkpoint
		was  string
		want string
	}{
		{"d1", api.Checkpoint{ExpiresAt: time.Now().Add(25 * time.Hour)}, "", "so nothing was done.\nIt expires in 25 hours: give it a NAME to keep it.\n"},
		{"d1", api.Checkpoint{Note: api.Note{Name: "kept"}}, "", "so nothing was done.\n"},
		{"-m text d1", api.Checkpoint{ExpiresAt: time.Now()}, "", "it got the message.\nIt expires now: give it a NAME to keep it.\n"},
		{"d1 new", api.Checkpoint{Note: api.Note{Name: "new"}}, "old\x1b", "it got the name.\nIts name was old\\u001b until now.\n"},
		{"-m text d1 new", api.Checkpoint{Note: api.Note{Name: "new"}}, "", "it got the name and the message.\n"},
	} {
		p := looked()
		p["POST /v1/workspaces/{id}/draft"] = api.Draft{ID: id, Made: true, Was: tt.was}
		p["GET /v1/checkpoints/"+id] = tt.made
		got := p.run(t, "", append([]string{"checkpoint"}, strings.Fields(tt.args)...)...)
		if got.failed != nil || got.out != id+"\n" || !strings.HasPrefix(got.err, "It is a checkpoint already, so") || !strings.HasSuffix(got.err, tt.want) {
			t.Errorf("%s: %q, %q, %v, want %q", tt.args, got.out, got.err, got.failed, tt.want)
		}
	}
	got := of("a1").run(t, "", "checkpoint", "--no-pause", "-m", "a message", "a1", "step-1")
	if got.failed != nil || got.out != id+"\n" || !strings.Contains(got.err, "Warning: no container was paused. Databases") {
		t.Errorf("--no-pause: %q, %q, %v", got.out, got.err, got.failed)
	}
	if got := looked().run(t, "", "checkpoint", "f1"); got.failed == nil || got.out != "" || !strings.Contains(got.failed.Error(), `"f1" can mean volume "f1" and workspace f1`) {
		t.Errorf("%q, %v", got.out, got.failed)
	}
}

func TestRewind(t *testing.T) {
	for word, want := range map[string]string{"c1": "", "step-1": "", "twice": `"twice" can mean checkpoint d1 and checkpoint d2`} {
		p, asked := looked(), ""
		p["POST /v1/volumes/{name}/rewind"] = func(w http.ResponseWriter, r *http.Request) {
			var of struct{ Checkpoint string }
			json.NewDecoder(r.Body).Decode(&of)
			asked = r.PathValue("name") + " " + of.Checkpoint
			json.NewEncoder(w).Encode(api.Workspace{ID: "new"})
		}
		got := p.run(t, "", "rewind", "src", word)
		if want == "" && (got.failed != nil || got.out != "new\n" || asked != "src c1") || want != "" && (got.failed == nil || asked != "" || !strings.Contains(got.failed.Error(), want)) {
			t.Errorf("%s: %+v, asked %q, want %q", word, got, asked, want)
		}
	}
	p := looked()
	p["POST /v1/volumes/{name}/rewind"] = refuse(http.StatusConflict, api.ErrorAnswer{Error: "it is in use"})
	if got := p.run(t, "", "rewind", "src", "c1"); got.failed == nil || got.failed.Error() != "it is in use" {
		t.Error(got.failed)
	}
}
