package checkout

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/tests/testgit"
)

// checkoutDir makes the directories of a checkout below dir.
func checkoutDir(t testgit.T, dir, name string) string {
	t.Helper()
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	return dir
}

// state returns the contents of a checkout: files by name, with mode and content, and the
// index without stat data.
func state(t testgit.T, dir string) (list []string) {
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
	ix, err := Spec{Dir: dir}.readIndex(IndexFile)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, e := range ix.Entries {
		if info, err := os.Lstat(filepath.Join(dir, e.Name())); !e.IsFile() {
			// a submodule, or outside the cone
		} else if err != nil || e.Size() != uint32(info.Size()) || e.Mtime()/1e9 != info.ModTime().Unix() {
			t.Fatalf("the entry of %q does not match its file: %v", e.Name(), err)
		}
		e.SetStat(&unix.Stat_t{})
	}
	var encoded bytes.Buffer
	if err := ix.Encode(&encoded); err != nil {
		t.Fatalf("%v", err)
	}
	return append(list, fmt.Sprintf("%q", encoded.Bytes()))
}

// plainCheckout checks out a commit with git alone, and with this configuration.
func plainCheckout(t testgit.T, w testgit.Trees, dir, commit string, cone gitindex.Cone, config ...string) {
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
	cmd := testgit.Command(dir, append(args, "read-tree", "-m", "-u", commit)...)
	cmd.Env = append(cmd.Env, "GIT_OBJECT_DIRECTORY="+filepath.Join(w.Store, "objects"))
	if _, err := testgit.Run(cmd); err != nil {
		t.Fatalf("%v", err)
	}
}
