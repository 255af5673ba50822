package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
)

// TestCheckpointsAreSeen checks that each step of the life of a checkpoint has its record in the audit log, with what it is
// about, its event, and its metrics.
func TestCheckpointsAreSeen(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	ctx, admin := t.Context(), p.admin()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p.create("v", map[string]string{"repo": s.URL("sample"), "subject": "team", "mode": "keep"})
	dir := p.mount("v", "1")
	ok(os.WriteFile(filepath.Join(dir, "new"), make([]byte, 1<<16), 0o644))
	list, err := admin.Workspaces(ctx, api.Filter{})
	ok(err)
	of := list[0].ID

	made, err := admin.Draft(ctx, of, api.Note{Message: "before"})
	ok(err)
	ok(os.WriteFile(filepath.Join(dir, "new"), make([]byte, 1<<17), 0o644))
	_, err = admin.CatchUp(ctx, made.ID)
	ok(err)
	_, err = admin.Keep(ctx, made.ID)
	ok(err)
	_, err = admin.Draft(ctx, made.ID, api.Note{Name: "fair"})
	ok(err)
	if again, err := admin.Draft(ctx, made.ID, api.Note{Name: "good"}); err != nil || !again.Made || again.Was != "fair" {
		t.Errorf("another name: %+v, %v", again, err)
	}
	_, err = admin.Draft(ctx, made.ID, api.Note{}) // leaves nothing in events, metrics and the audit log
	ok(err)
	dropped, err := admin.Draft(ctx, of, api.Note{})
	ok(err)
	ok(admin.DropDraft(ctx, dropped.ID))
	if _, err = admin.Draft(ctx, "0123456789abcdef", api.Note{}); err == nil {
		t.Error("a draft of nothing")
	}
	if _, err = admin.Rewind(ctx, "v", made.ID); err == nil {
		t.Error("a volume in use went back")
	}
	ok(os.WriteFile(filepath.Join(dir, "late"), nil, 0o644))
	p.unmount("v", "1")
	rewound, err := admin.Rewind(ctx, "v", made.ID)
	ok(err)
	p.create("f", map[string]string{"repo": s.URL("sample"), "subject": "team", "from": made.ID})
	p.mount("f", "1")
	p.unmount("f", "1") // no change, so no checkpoint
	ok(p.Remove(ctx, "f"))
	var old string
	for _, d := range p.checkpoints(t, 2) {
		if d.Made == "rewind" {
			old = d.ID
		}
	}
	ok(admin.RemoveCheckpoint(ctx, old))

	var got []string
	for _, e := range events(t, p) {
		if e.Kind != "checkpoint" || e.Subject != "team" || e.Clone == "" || e.ID != made.ID && e.ID != old {
			t.Errorf("%+v", e)
		}
		got = append(got, e.Type+" "+e.Volume)
	}
	slices.Sort(got) // the reaper has no order with the others
	if want := []string{"begun f", "checkpoint v", "checkpoint v", "checkpoint v", "checkpoint v", "removed v", "rewound v"}; !slices.Equal(got, want) {
		t.Errorf("events: got  %q\nwant %q", got, want)
	}

	_, text, err := p.scrape()
	ok(err)
	for _, want := range []string{
		`checkpoints_made_total{made="user",result="ok"} 1`, `checkpoints_made_total{made="user",result="dropped"} 1`, `checkpoints_made_total{made="user",result="error"} 0`,
		`checkpoints_made_total{made="rewind",result="ok"} 1`, `checkpoints_made_total{made="end",result="ok"} 0`,
		`checkpoint_pass_duration_seconds_count{pass="first"} 2`, `checkpoint_pass_duration_seconds_count{pass="catch_up"} 1`,
		`checkpoint_forks_total 1`, `rewinds_total{result="ok"} 1`, `rewinds_total{result="error"} 1`,
		`checkpoints{made="user"} 1`, `checkpoints{made="rewind"} 0`, `named_checkpoints 1`,
	} {
		if !strings.Contains(text, "\nhelmdeck_repos_"+want+"\n") {
			t.Errorf("no metric %s", want)
		}
	}

	wants := []struct{ action, result, checkpoint string }{
		{"checkpoint.begin", "ok", made.ID}, {"checkpoint.catch-up", "ok", made.ID}, {"checkpoint.keep", "ok", made.ID},
		{"checkpoint.note", "ok", made.ID}, {"checkpoint.note", "ok", made.ID},
		{"checkpoint.begin", "ok", dropped.ID}, {"checkpoint.drop", "ok", dropped.ID}, {"checkpoint.begin", "failed", ""},
		{"volume.rewind", "failed", made.ID}, {"volume.rewind", "ok", made.ID}, {"checkpoint.remove", "ok", old},
	}
	for _, r := range p.audited() {
		if !strings.HasPrefix(r.Action, "checkpoint.") && r.Action != "volume.rewind" {
			continue
		}
		if len(wants) == 0 {
			t.Errorf("one more: %+v", r)
			continue
		}
		want := wants[0]
		wants = wants[1:]
		switch {
		case r.Action != want.action || r.Result != want.result || r.Checkpoint != want.checkpoint || r.Request == "" || r.Actor.Kind != "user":
			t.Errorf("got %+v, want %+v", r, want)
		case r.Result == "ok" && (r.Volume != "v" || r.Subject != "team" || r.Repo != s.URL("sample") || r.Clone == "" || r.Commit == ""):
			t.Errorf("what it is about is missing: %+v", r)
		case r.Action == "checkpoint.catch-up" && r.Bytes < 1<<17:
			t.Errorf("the bytes are missing: %+v", r)
		case r.Action == "checkpoint.note" && r.Name != "fair" && r.Name != "good":
			t.Errorf("the name is missing: %+v", r)
		case r.Action == "volume.rewind" && r.Result == "ok" && r.Workspace != rewound.ID:
			t.Errorf("the workspace is missing: %+v", r)
		}
	}
	if len(wants) > 0 {
		t.Errorf("no records %+v", wants)
	}
}
