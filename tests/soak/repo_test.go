package soak

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// repo is a repository of the server, and the plugin's clone of it for a subject of the same name.
type repo struct {
	name    string
	path    string // of the bare repository
	url     string
	pushing sync.Mutex

	mu      sync.Mutex
	commits []string // of main, oldest first
	trees   map[string]tree
	// uses has the uses of the clone that go on, each by a pointer to the number of commits at its
	// start. lastUse is when the last one ended. A clone in use must not be evicted.
	uses    map[*int]bool
	lastUse time.Time
	keeping bool // a volume keeps a workspace of the clone
}

// tree is the expected content of a checkout: the fingerprint of each file by path.
type tree map[string]string

// newRepo makes a repository, and reads the expected content of a checkout from one that git makes.
func newRepo(server *gitserver.Server, n int) (*repo, error) {
	name := fmt.Sprint("s", n)
	r := &repo{name: name, path: server.Path(name), url: server.URL(name), trees: make(map[string]tree), uses: make(map[*int]bool)}
	if _, err := gitserver.Generate(r.path, gitserver.Spec{Seed: uint64(n), Files: 30, Commits: 2, Changes: 5}); err != nil {
		return nil, err
	}
	if _, err := gitserver.Commit(r.path, "main", gitserver.Change{Path: pushed, Content: "0"},
		gitserver.Change{Path: "large.txt", Content: strings.Repeat(fmt.Sprintln("line of", name), 20_000)}); err != nil {
		return nil, err
	}
	dir := filepath.Join(scratch, "checkout-"+name)
	if _, err := testgit.Run(testgit.Command("/", "clone", "--quiet", r.path, dir)); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	t, err := readTree(dir)
	if err != nil {
		return nil, err
	}
	head, err := testgit.Run(testgit.Command(dir, "rev-parse", "HEAD"))
	r.commits, r.trees[head] = []string{head}, t
	return r, err
}

// pushed is the file that push changes.
const pushed = "pushed.txt"

// push adds a commit to main.
func (r *repo) push(content string) error {
	r.pushing.Lock()
	defer r.pushing.Unlock()
	r.mu.Lock()
	t := maps.Clone(r.trees[r.commits[len(r.commits)-1]])
	r.mu.Unlock()
	t[pushed] = fingerprint(0o644, []byte(content))
	commit, err := gitserver.Commit(r.path, "main", gitserver.Change{Path: pushed, Content: content})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits, r.trees[commit] = append(r.commits, commit), t
	return nil
}

// minCommits returns the number of commits that a mount must have at least: those that existed when
// the oldest use of the clone began, because concurrent mounts share one request to the remote.
func (r *repo) minCommits() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.commits)
	for began := range r.uses {
		n = min(n, *began)
	}
	return n
}

// use marks the clone as in use until done is called.
func (r *repo) use() (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := len(r.commits)
	r.uses[&began] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.uses, &began)
		r.lastUse = time.Now()
	}
}

// inUseSince reports whether the clone may have been in use at any time since.
func (r *repo) inUseSince(since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.uses) > 0 || r.keeping || !r.lastUse.Before(since)
}

// check checks that a workspace equals its commit, except for own files, and that the commit is not
// older than the commit number minCommits of main. It may be newer, because a push may happen at
// the same time.
func (r *repo) check(dir string, minCommits int, own ...string) error {
	head, err := os.ReadFile(filepath.Join(dir, ".git/refs/heads/main"))
	if err != nil {
		return err
	}
	commit := strings.TrimSpace(string(head))
	// A push in progress may be on the server and not yet in r.commits: wait for its end.
	r.pushing.Lock()
	r.mu.Lock()
	want, ok := r.trees[commit]
	for i, c := range r.commits {
		if c == commit && i < minCommits-1 {
			err = fmt.Errorf("the workspace is %d commits behind", minCommits-1-i)
		}
	}
	r.mu.Unlock()
	r.pushing.Unlock()
	if !ok {
		return fmt.Errorf("HEAD is %q, which nobody pushed", commit)
	}
	if err != nil {
		return err
	}
	got, err := readTree(dir)
	if err != nil {
		return err
	}
	for _, name := range own {
		delete(got, name)
	}
	for name := range want {
		if got[name] != want[name] {
			return fmt.Errorf("%s of commit %s has fingerprint %q, want %q", name, commit, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		return fmt.Errorf("files that commit %s does not have: %v", commit, got)
	}
	return nil
}

// readTree reads all files of a checkout.
func readTree(dir string) (tree, error) {
	t := make(tree)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		switch {
		case name == ".git":
			return fs.SkipDir
		case d.IsDir():
			return nil
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			t[name] = fingerprint(fs.ModeSymlink, []byte(to))
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		t[name] = fingerprint(info.Mode(), content)
		return err
	})
	return t, err
}

// fingerprint describes everything that git tracks of a file: type, executable bit and content.
func fingerprint(mode fs.FileMode, content []byte) string {
	return fmt.Sprintf("%v %x", mode.Type()|mode&0o100, sha256.Sum256(content))
}
