package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/workspace/upper"
)

// TestWarmStates checks that POST /v1/warm says which states the next mount finds, and that a container that makes a mark
// without any change has the state of its commit.
func TestWarmStates(t *testing.T) {
	t.Parallel()
	s, ctx := remote(t), t.Context()
	p := start(t, scratch(t))
	push := func(path, content string) (commit string) {
		t.Helper()
		commit, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: path, Content: content})
		if err != nil {
			t.Fatal(err)
		}
		return commit
	}
	options := map[string]string{"warm": "nm,dist", "warm_files": "lock", "publish": "marked", "refresh": "always"}
	volume := map[string]string{"repo": s.URL("sample"), "ref": "main"}
	maps.Copy(volume, options)
	p.create("v", volume)
	warm := func(when, commit string, want ...api.WarmState) {
		t.Helper()
		res, err := p.admin().Warm(ctx, api.Warm{Repo: s.URL("sample"), Ref: "main", Options: options}, nil)
		if err != nil || res.Commit != commit || len(res.States) != len(want) {
			t.Fatalf("%s: got %+v, %v", when, res, err)
		}
		for i, got := range res.States {
			if got.BuiltAt.IsZero() != (got.Commit == "") || got.Head == "" {
				t.Errorf("%s: %+v", when, got)
			}
			got.BuiltAt, got.Head = want[i].BuiltAt, ""
			if got != want[i] {
				t.Errorf("%s: got %+v, want %+v", when, got, want[i])
			}
		}
	}
	run := func(id, mark string, files ...string) {
		t.Helper()
		dir := p.mount("v", id)
		for _, f := range append(files, upper.Mark) {
			at := filepath.Join(dir, f)
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(mark), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p.unmount("v", id)
	}
	const none, newest = "there is none yet", "it is the newest of the ref: there is none of the same warm_files"
	first := push("lock", "1")
	warm("at first", first, api.WarmState{Path: "dist", Why: none}, api.WarmState{Path: "nm", Why: none})
	run("1", "image 1\n", "nm/a", "dist/a")
	made := func(commit, label string) []api.WarmState {
		return []api.WarmState{{Path: "dist", Exact: true, Commit: commit, Label: label}, {Path: "nm", Exact: true, Commit: commit, Label: label}}
	}
	warm("made", first, made(first, "image 1")...)
	second := push("other", "x")
	warm("of an earlier commit", second, made(first, "image 1")...)
	run("2", "image 1\n", "nm/b")
	warm("good for the second commit", second, made(second, "image 1")...)
	third := push("lock", "2")
	warm("another lock file", third, api.WarmState{Path: "dist", Commit: second, Label: "image 1", Why: newest}, api.WarmState{Path: "nm", Commit: second, Label: "image 1", Why: newest})
	run("3", "image\x1b2\n")
	warm("without changes or a label", third, made(third, "")...)
	dir := p.mount("v", "4")
	if _, err := os.Stat(filepath.Join(dir, "dist/a")); err != nil {
		t.Error(err)
	}
	list, ok := p.get("v").Status["warm"].([]any)
	if !ok || len(list) != 2 {
		t.Fatalf("%+v", list)
	}
	p.unmount("v", "4")
	push("lock", "1")
	p.mount("v", "5")
	for _, entry := range p.get("v").Status["warm"].([]any) {
		if of, ok := entry.(map[string]any); !ok || of["label"] != "image 1" || of["commit"] != second || of["why"] != nil {
			t.Errorf("Status: %+v", entry)
		}
	}
	p.unmount("v", "5")
}
