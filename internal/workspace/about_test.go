package workspace

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/workspace/upper"
	"github.com/helmdeck/repos/tests/testgit"
)

// about is what the tests read of a helmdeck.json.
type about struct {
	Volume, Workspace, Subject, Repo, Ref, Commit string
	Reused, Stale                                 bool
	Pulled                                        string `json:"pulled_sha"`
	Time                                          time.Time
	NotUsed                                       map[string]string `json:"not_used"`
}

// notUsed returns what a workspace's helmdeck.json says of it.
func notUsed(t *testing.T, dir string) map[string]string {
	t.Helper()
	var a about
	if err := json.Unmarshal([]byte(content(t, filepath.Join(dir, ".git", "helmdeck.json"))), &a); err != nil {
		t.Fatal(err)
	}
	return a.NotUsed
}

// TestNotUsed: helmdeck.json says why the cache or a warm directory is missing.
func TestNotUsed(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	if rec, dir := w.open("plain", "1"); len(notUsed(t, dir)) > 0 || upper.NotUsed(rec) != nil {
		t.Errorf("nothing is missing: %q", notUsed(t, dir))
	}
	tracked, _, _ := strings.Cut(testgit.GitAny(t, w.mountpointOf("plain"), "-c", "core.quotePath=false", "ls-tree", "-d", "--name-only", "HEAD"), "\n")
	options := []string{"cache", "off", "warm", "node_modules," + tracked}
	_, dir := w.open("v", "1", options...)
	got := notUsed(t, dir)
	if len(got) != 3 || got[".git/hdcache"] != "the volume has cache=off" || !strings.HasPrefix(got["node_modules"], "none was carried over yet") ||
		got[tracked] != "the commit has it" {
		t.Errorf("not used: %q", got)
	}
	put(t, dir, "node_modules/x", "1")
	w.end("v", "1")
	_, dir = w.open("v", "2", options...)
	if got := notUsed(t, dir); len(got) != 2 || got["node_modules"] != "" {
		t.Errorf("the next one does not use: %q", got)
	}
}

// mountpointOf returns where the workspace of a volume with one lease is mounted.
func (w *world) mountpointOf(name string) string {
	w.t.Helper()
	leases := w.m.Leases(name)
	if len(leases) != 1 {
		w.t.Fatalf("%d workspaces, want one", len(leases))
	}
	return w.m.Mountpoint(leases[0])
}
