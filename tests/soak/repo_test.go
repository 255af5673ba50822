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

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// repo is a repository of the server, and the clone of it that the plugin has for a subject of the same name.
type repo struct {
	name    string
	path    string // of the bare repository
	url     string
	pushing sync.Mutex

	mu      sync.Mutex
	commits []string // of main, oldest first
	trees   map[string]tree
	// working are those who may have the clone in use, with the number of commits when they began, and worked is when
	// the last one ended: it is not to be evicted.
	working map[*int]bool
	worked  time.Time
	keeping bool // a volume keeps a workspace of it
}

// tree is what is to be in a checkout: by path, what print says.
type tree map[string]string

// newRepo makes a repository and knows what a checkout of it has, from git itself.
func newRepo(server *gitserver.Server, n int) (*repo, error) {
	name := fmt.Sprint("s", n)
	r := &repo{name: name, path: server.Path(name), url: server.URL(name), trees: make(map[string]tree), working: make(map[*int]bool)}
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

// pushed is the file that pushes change.
const pushed = "pushed.txt"

// push commits to main.
func (r *repo) push(content string) error {
	r.pushing.Lock()
	defer r.pushing.Unlock()
	r.mu.Lock()
	t := maps.Clone(r.trees[r.commits[len(r.commits)-1]])
	r.mu.Unlock()
	t[pushed] = print(0o644, []byte(content))
	commit, err := gitserver.Commit(r.path, "main", gitserver.Change{Path: pushed, Content: content})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commits, r.trees[commit] = append(r.commits, commit), t
	return nil
}

// newest is the number of commits that a mount must know of: those that were there when the first of those began who
// are at work now, for mounts at the same time ask the remote together.
func (r *repo) newest() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.commits)
	for began := range r.working {
		n = min(n, *began)
	}
	return n
}

// use says that the clone may be in use until done is called.
func (r *repo) use() (done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	began := len(r.commits)
	r.working[&began] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.working, &began)
		r.worked = time.Now()
	}
}

// untouchable says whether the clone may have been in use at any time since.
func (r *repo) untouchable(since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.working) > 0 || r.keeping || !r.worked.Before(since)
}

// check says what in a workspace is not as in its commit, which must be one of the newest, but for own files. A new
// commit may have come while it was asked for, and be there already.
func (r *repo) check(dir string, newest int, own ...string) error {
	head, err := os.ReadFile(filepath.Join(dir, ".git/refs/heads/main"))
	if err != nil {
		return err
	}
	commit := strings.TrimSpace(string(head))
	// The server has it before we know of it.
	r.pushing.Lock()
	r.mu.Lock()
	want, ok := r.trees[commit]
	for i, c := range r.commits {
		if c == commit && i < newest-1 {
			err = fmt.Errorf("the commit is %d behind", newest-1-i)
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
			return fmt.Errorf("%s of commit %s is %q, want %q", name, commit, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		return fmt.Errorf("commit %s has no %v", commit, got)
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
		case d.IsDir() || name == ".hdcache":
			return nil
		case d.Type() == fs.ModeSymlink:
			to, err := os.Readlink(path)
			t[name] = print(fs.ModeSymlink, []byte(to))
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		t[name] = print(info.Mode(), content)
		return err
	})
	return t, err
}

// print says what git would tell apart in a file.
func print(mode fs.FileMode, content []byte) string {
	return fmt.Sprintf("%v %x", mode.Type()|mode&0o100, sha256.Sum256(content))
}
