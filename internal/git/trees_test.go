package git

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/gitindex"
)

// trees makes commits in a store from what they hold.
type trees struct {
	t     rapidT
	store string
}

// rapidT is what *testing.T and *rapid.T have in common.
type rapidT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// git runs git in the store and returns its output.
func (w trees) git(stdin string, env []string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"--git-dir=" + w.store}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t",
	}, env...)
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

func (w trees) blob(content string) string {
	return w.git(content, nil, "hash-object", "-w", "--stdin")
}

// commit makes one of files, each with its mode and object ID, and returns it.
func (w trees) commit(files map[string]string) string {
	w.t.Helper()
	index := filepath.Join(w.store, "index.test")
	defer os.Remove(index)
	env := []string{"GIT_INDEX_FILE=" + index}
	var stdin strings.Builder
	for name, info := range files {
		fmt.Fprintf(&stdin, "%s\t%s\x00", info, name)
	}
	w.git("", env, "read-tree", "--empty")
	w.git(stdin.String(), env, "update-index", "-z", "--index-info")
	return w.git("", nil, "commit-tree", "-m", "m", w.git("", env, "write-tree"))
}

// commitTree makes a commit of a tree that git itself would not make: raw entries,
// each "mode name", NUL and ID.
func (w trees) commitTree(entries ...string) string {
	w.t.Helper()
	tree := w.git(strings.Join(entries, ""), nil, "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
	return w.git("", nil, "commit-tree", "-m", "m", tree)
}

// checkoutDir makes the directories of a checkout below dir.
func checkoutDir(t rapidT, dir, name string) string {
	t.Helper()
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	return dir
}

// state is what there is in a checkout: files by name, with mode and content, and
// the index but for what it says of the files' times and places.
func state(t rapidT, dir string) (list []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, content := strings.TrimPrefix(path, dir), ""
		switch {
		case name == "/.git":
			return fs.SkipDir
		case d.Type() == fs.ModeSymlink:
			content, err = os.Readlink(path)
		case !d.IsDir():
			var data []byte
			data, err = os.ReadFile(path)
			content = string(data)
		}
		list = append(list, fmt.Sprintf("%s %v %q", name, info.Mode(), content))
		return err
	}); err != nil {
		t.Fatalf("%v", err)
	}
	ix, err := Checkout{Dir: dir}.readIndex(IndexFile)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, e := range ix.Entries {
		if info, err := os.Lstat(filepath.Join(dir, e.Name())); !e.IsFile() {
			// a submodule, or outside of the cone
		} else if err != nil || e.Size() != uint32(info.Size()) || e.Mtime()/1e9 != info.ModTime().Unix() {
			t.Fatalf("the index does not know %q as it is: %v", e.Name(), err)
		}
		e.SetStat(&unix.Stat_t{})
	}
	var encoded bytes.Buffer
	if err := ix.Encode(&encoded); err != nil {
		t.Fatalf("%v", err)
	}
	return append(list, fmt.Sprintf("%q", encoded.Bytes()))
}

// plainCheckout is what git alone makes of a commit, with more configuration.
func plainCheckout(t rapidT, w trees, dir, commit string, cone gitindex.Cone, config ...string) {
	t.Helper()
	sparse := fmt.Sprint(cone != nil)
	top := filepath.Join(dir, ".git")
	for name, content := range map[string]string{
		"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n", Patterns: string(cone.Patterns()),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755); err != nil {
			t.Fatalf("%v", err)
		}
		if err := os.WriteFile(filepath.Join(top, name), []byte(content), 0o644); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(top, "refs"), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	var args []string
	for _, c := range append(config, "core.sparseCheckout="+sparse, "core.sparseCheckoutCone="+sparse, "index.version=2", "index.sparse=false") {
		args = append(args, "-c", c)
	}
	cmd := exec.Command("git", append(args, "read-tree", "-m", "-u", commit)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_OBJECT_DIRECTORY=" + filepath.Join(w.store, "objects")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("read-tree: %v: %s", err, out)
	}
}
