package quarantine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// conflicts merges the HEADs of two scenes.
func (s *scene) conflicts(other *scene) (clean bool, paths []string, err error) {
	s.t.Helper()
	taken := [2]*Taken{}
	for i, of := range []*scene{s, other} {
		r, err := of.repo()
		if err != nil {
			return false, nil, err
		}
		head, err := r.Head()
		if err != nil {
			return false, nil, err
		}
		if taken[i], err = s.q.Take(s.t.Context(), r, []Branch{head}, silent); err != nil {
			return false, nil, err
		}
		defer taken[i].Close()
	}
	clean, err = taken[0].Conflicts(s.t.Context(), taken[1], func(path string) error { paths = append(paths, path); return nil })
	return clean, paths, err
}

// TestConflicts compares what is said of two workspaces with what git merge does in a container.
func TestConflicts(t *testing.T) {
	t.Parallel()
	begin := newScene(t)
	begin.commit("text", "one\ntwo\nthree\n")
	begin.commit("dir/file", "x\n")
	for _, tt := range []struct {
		name      string
		a, b      func(s *scene)
		conflicts []string // nil: clean
	}{
		{"nothing", func(*scene) {}, func(*scene) {}, nil},
		{"one only", func(s *scene) { s.commit("new", "x") }, func(*scene) {}, nil},
		{"other files", func(s *scene) { s.commit("new", "x") }, func(s *scene) { s.commit("newer", "x") }, nil},
		{"other lines", func(s *scene) { s.commit("text", "0\none\ntwo\nthree\n") }, func(s *scene) { s.commit("text", "one\ntwo\nthree\n4\n") }, nil},
		{"the same lines", func(s *scene) { s.commit("text", "one\nzwei\nthree\n") }, func(s *scene) { s.commit("text", "one\ndeux\nthree\n") }, []string{"text"}},
		{"both added", func(s *scene) { s.commit("a\nb \"c\"", "x") }, func(s *scene) { s.commit("a\nb \"c\"", "y") }, []string{"a\nb \"c\""}},
		{"changed and deleted", func(s *scene) { s.commit("text", "x") }, func(s *scene) { s.git("rm", "-q", "text"); s.git("commit", "-qm", "x") }, []string{"text"}},
		{"renamed", func(s *scene) { s.git("mv", "text", "moved"); s.git("commit", "-qm", "x") }, func(s *scene) { s.commit("text", "one\ntwo\nthree\n4\n") }, nil},
		{"detached", func(s *scene) { s.git("checkout", "-q", "--detach"); s.commit("text", "x") }, func(s *scene) { s.commit("text", "y") }, []string{"text"}},
		{"not committed", func(s *scene) { s.write("text", "x") }, func(s *scene) { s.commit("text", "y") }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := begin.again(t), begin.again(t)
			tt.a(a)
			tt.b(b)
			for _, pair := range [][2]*scene{{a, b}, {b, a}} {
				clean, paths, err := pair[0].conflicts(pair[1])
				if err != nil || clean != (tt.conflicts == nil) || !slices.Equal(paths, tt.conflicts) {
					t.Errorf("clean: %t, %q, %v; want conflicts in %q", clean, paths, err, tt.conflicts)
				}
				pair[0].wantEmpty()
			}
			if tt.name != "not committed" {
				a.git("fetch", "-q", b.root, "HEAD")
				if _, err := testgit.Run(testgit.Command(a.root, "merge", "-q", "FETCH_HEAD")); (err == nil) != (tt.conflicts == nil) {
					t.Errorf("git merge in the container: %v", err)
				}
			}
		})
	}
}

// TestConflictsAreRefused: what can't be merged is an error that says why, and leaves nothing.
func TestConflictsAreRefused(t *testing.T) {
	t.Parallel()
	a := newScene(t)
	b := a.again(t)
	b.git("checkout", "-q", "--orphan", "other")
	b.commit("new", "x")
	_, _, err := a.conflicts(b)
	a.wantRefusal(err, Conflict, "unrelated histories")

}

// TestConflictsAreBounded: a merge that writes much more than the commits have is ended.
func TestConflictsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	a := newScene(t)
	noise := make([]byte, 300<<10)
	rand.NewChaCha8([32]byte{}).Read(noise)
	text := fmt.Sprintf("%0100x", noise)
	var lines []string
	for chunk := range slices.Chunk([]byte(text), 100) {
		lines = append(lines, string(chunk))
	}
	change := func(s *scene, at int) {
		for i := range 60 { // a pack has small differences, and each result is written in full
			changed := slices.Clone(lines)
			changed[50] = fmt.Sprint(i)
			if at > 0 {
				changed[at] = "changed"
			}
			s.write(fmt.Sprintf("files/%d", i), strings.Join(changed, "\n"))
		}
		s.git("add", "-A")
		s.git("commit", "-qm", "x")
		s.git("gc", "-q")
	}
	change(a, 0)
	b := a.again(t)
	change(a, 1000)
	change(b, 3000)
	a.q.MaxSize = 4 << 20
	_, _, err := a.conflicts(b)
	a.wantRefusal(err, TooLarge, "the merge has more than 4194304 bytes")
}

// TestConflictsRunNothing: neither the configuration nor the attributes of a container make git run a program, and
// alternates, grafts and hooks there do not count.
func TestConflictsRunNothing(t *testing.T) {
	t.Parallel()
	a := newScene(t)
	a.commit(".gitattributes", "* merge=evil filter=evil diff=evil text eol=crlf\n")
	a.commit("text", "one\ntwo\n")
	b := a.again(t)
	a.commit("text", "eins\ntwo\n")
	b.commit("text", "uno\ntwo\n")
	ran := filepath.Join(t.TempDir(), "ran")
	for _, s := range []*scene{a, b} {
		for key, value := range map[string]string{
			"merge.evil.driver": "touch " + ran, "filter.evil.clean": "touch " + ran, "filter.evil.smudge": "touch " + ran, "diff.evil.command": "touch " + ran,
			"diff.evil.textconv": "touch " + ran, "merge.default": "evil", "merge.renormalize": "true", "core.fsmonitor": "touch " + ran, "core.attributesFile": "/dev/zero",
		} {
			s.git("config", key, value)
		}
		s.write(".git/info/attributes", "* merge=evil\n")
		s.write(".git/objects/info/alternates", "/proc/self/cwd\n")
		s.write(".git/info/grafts", s.base+"\n")
		s.write(".git/hooks/post-merge", "#!/bin/sh\ntouch "+ran+"\n")
		s.must(os.Chmod(s.dotGit("hooks/post-merge"), 0o755))
	}
	clean, paths, err := a.conflicts(b)
	if err != nil || clean || !slices.Equal(paths, []string{"text"}) {
		t.Errorf("clean: %t, %q, %v", clean, paths, err)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of the container ran")
	}
	a.wantEmpty()
}
