package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestPush commits in containers without any credential, and pushes from a mounted workspace, a
// kept one and a checkpoint. The remote needs a password.
func TestPush(t *testing.T) {
	t.Parallel()
	s := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 20, Commits: 2})
	s.Protect("r", gitserver.Login{User: "u", Password: "secret-of-the-push"})
	p := start(t, scratch(t))
	ctx := t.Context()
	put := func(allow string) {
		t.Helper()
		if err := p.admin().PutCredential(ctx, "c", api.PutCredential{Kind: "https", Scope: s.URL("r"), User: "u", Secret: "secret-of-the-push", Allow: allow}); err != nil {
			t.Fatal(err)
		}
	}
	put("")
	p.create("v", map[string]string{"repo": s.URL("r"), "subject": "alice"})
	p.create("kept", map[string]string{"repo": s.URL("r"), "subject": "alice", "mode": "keep"})
	commit := func(dir, branch string) string {
		t.Helper()
		testgit.GitAny(t, dir, "switch", "-q", "-c", branch)
		if err := os.WriteFile(filepath.Join(dir, "work-"+branch), []byte("work\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		testgit.GitAny(t, dir, "add", ".")
		testgit.GitAny(t, dir, "commit", "-q", "-m", "work of "+branch)
		return testgit.GitAny(t, dir, "rev-parse", "HEAD")
	}
	push := func(id string, want api.Push) (api.PushResult, error) {
		t.Helper()
		return p.admin().Outbound(id).Push(ctx, want, nil)
	}
	wantAt := func(branch, commit string) {
		t.Helper()
		if got := testgit.Git(t, s.Path("r"), "rev-parse", "refs/heads/"+branch); got != commit {
			t.Errorf("%s is at %s, want %s", branch, got, commit)
		}
	}
	wantStatus := func(err error, status int, text string) {
		t.Helper()
		e, ok := errors.AsType[*api.Error](err)
		if !ok || !strings.Contains(e.Message, text) || e.Status != status && e.Status != 200 {
			t.Errorf("got %v, want the status %d and %q", err, status, text)
		}
	}

	dir := p.mount("v", "m1")
	live := commit(dir, "live")
	id := p.workspaceOf("v")
	_, err := push(id, api.Push{})
	wantStatus(err, 403, "may only fetch")
	put("push")
	res, err := push(id, api.Push{})
	if err != nil || res.NewCommit != live || res.OldCommit != "" || res.Commits != 1 || res.Objects != 3 || res.RemoteBranch != "live" || res.Volume != "v" {
		t.Fatalf("%+v, %v", res, err)
	}
	wantAt("live", live)
	if res, err = push(id, api.Push{}); err != nil || res.OldCommit != live || res.Commits != 0 {
		t.Errorf("nothing to push: %+v, %v", res, err)
	}
	_, err = push(id, api.Push{Branch: "none"})
	wantStatus(err, 404, `no branch "none"; it has "live" "main"`)
	_, err = push(id, api.Push{RemoteBranch: "--force"})
	wantStatus(err, 400, "leading dash")
	_, err = push(id, api.Push{ForceWithLease: "main"})
	wantStatus(err, 400, "full ID")
	_, err = push("0123", api.Push{})
	wantStatus(err, 404, `no workspace "0123"`)

	kept := commit(p.mount("kept", "m2"), "kept")
	p.unmount("kept", "m2")
	if _, err = push(p.workspaceOf("kept"), api.Push{RemoteBranch: "fix/kept"}); err != nil {
		t.Fatal(err)
	}
	wantAt("fix/kept", kept)

	left := commit(dir, "left")
	p.unmount("v", "m1")
	wait.For(t, "the checkpoint", func() error {
		list, err := p.admin().Checkpoints(ctx, api.Filter{})
		return wait.Check(err == nil && len(list) == 1, "%+v, %v", list, err)
	})
	var bundle bytes.Buffer
	n, _, err := p.admin().Outbound(id).Bundle(ctx, api.Bundle{}, &bundle)
	if err != nil || n != int64(bundle.Len()) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	file := filepath.Join(t.TempDir(), "bundle")
	if err := os.WriteFile(file, bundle.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := testgit.Git(t, s.Path("r"), "bundle", "list-heads", file); got != left+" refs/heads/left\n"+live+" refs/heads/live" && got != live+" refs/heads/live\n"+left+" refs/heads/left" {
		t.Errorf("the bundle has %q", got)
	}
	if res, err = push(id, api.Push{RemoteBranch: "live"}); err != nil || res.OldCommit != live {
		t.Errorf("%+v, %v", res, err)
	}
	wantAt("live", left)
	testgit.Git(t, s.Path("r"), "fsck", "--strict")

	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("ab", 32) + "\nsize 12\n"
	again := p.mount("v", "m3")
	if err := os.WriteFile(filepath.Join(again, "large"), []byte(pointer), 0o644); err != nil {
		t.Fatal(err)
	}
	lfs := commit(again, "lfs")
	_, err = push(p.workspaceOf("v"), api.Push{})
	wantStatus(err, 422, "1 LFS pointers whose objects are neither pushed nor in a bundle, such as abab")
	if _, err = push(p.workspaceOf("v"), api.Push{WithoutLFS: true}); err != nil {
		t.Error(err)
	}
	wantAt("lfs", lfs)
	testgit.GitAny(t, again, "switch", "-q", "--detach", "HEAD^")
	commit(again, "first") // so that the pointer is neither on the first branch nor on the one that is checked out
	_, _, err = p.admin().Outbound(p.workspaceOf("v")).Bundle(ctx, api.Bundle{}, io.Discard)
	wantStatus(err, 422, "1 LFS pointers whose objects are neither pushed nor in a bundle, such as abab")
	for _, want := range []api.Bundle{{Branch: "first"}, {WithoutLFS: true}} {
		if _, _, err := p.admin().Outbound(p.workspaceOf("v")).Bundle(ctx, want, io.Discard); err != nil {
			t.Errorf("%+v: %v", want, err)
		}
	}

	if got := p.glob("quarantine/*"); len(got) > 0 {
		t.Errorf("left in the quarantine: %q", got)
	}
	events, err := p.admin().Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range events {
		if e.Volume == "v" && strings.HasSuffix(e.Type, "pushed") {
			types = append(types, e.Type)
		}
	}
	if want := []string{"not-pushed", "pushed", "pushed", "not-pushed", "not-pushed", "pushed", "not-pushed", "pushed"}; !slices.Equal(types, want) {
		t.Errorf("events %q, want %q", types, want)
	}
	var records []string
	if err := p.admin().Audit(ctx, api.AuditFilter{}, func(r api.AuditRecord) error {
		if r.Action == "push" || r.Action == "bundle" {
			records = append(records, r.Action+" "+r.Result+" "+r.Volume+" "+r.Ref)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(records) != 15 || records[0] != "push failed v refs/heads/live" || records[1] != "push ok v refs/heads/live" || records[8] != "bundle ok v " {
		t.Errorf("audit records %q", records)
	}
}

// TestPushOfOldHistory: what git fsck finds in a history that a container brought is in the answers and in the audit log.
func TestPushOfOldHistory(t *testing.T) {
	t.Parallel()
	s := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 20, Commits: 2})
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("r")})
	dir := p.mount("v", "m")
	trees := testgit.Trees{T: t, Store: filepath.Join(dir, ".git")}
	tree := trees.Tree(trees.Entry("0100644", "f", trees.Blob("x")))
	commit := testgit.GitAny(t, dir, "commit-tree", "-m", "old", "-p", "HEAD", tree)
	testgit.GitAny(t, dir, "update-ref", "refs/heads/old", commit)
	want := []string{"object " + tree + ": zeroPaddedFilemode: contains zero-padded file modes"}
	out := p.admin().Outbound(p.workspaceOf("v"))
	_, warnings, err := out.Bundle(t.Context(), api.Bundle{}, io.Discard)
	if err != nil || !slices.Equal(warnings, want) {
		t.Errorf("bundle: %q, %v, want %q", warnings, err, want)
	}
	res, err := out.Push(t.Context(), api.Push{Branch: "old"}, nil)
	if err != nil || !slices.Equal(res.Warnings, want) {
		t.Errorf("push: %q, %v, want %q", res.Warnings, err, want)
	}
	if got := testgit.Git(t, s.Path("r"), "rev-parse", "refs/heads/old"); got != commit {
		t.Errorf("the remote is at %s, want %s", got, commit)
	}
	var texts []string
	if err := p.admin().Audit(t.Context(), api.AuditFilter{}, func(r api.AuditRecord) error {
		if r.Action == "push" || r.Action == "bundle" {
			texts = append(texts, r.Text)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if text := "1 commits with 3 objects; git fsck warns: " + want[0]; !slices.Equal(texts, []string{text, text}) {
		t.Errorf("audit records %q, want %q twice", texts, text)
	}
}

// workspaceOf returns the ID of the only workspace of a volume that is not a checkpoint.
func (p *process) workspaceOf(name string) string {
	p.t.Helper()
	all, err := p.admin().Workspaces(p.t.Context(), api.Filter{})
	if err != nil {
		p.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(w api.Workspace) bool { return w.Volume != name || w.Phase == "checkpoint" })
	if len(all) != 1 {
		p.t.Fatalf("volume %q has %d workspaces", name, len(all))
	}
	return all[0].ID
}
