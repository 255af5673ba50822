package hostile

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// Every bomb is a small download, and git accepts it, because git does not look into the trees.
func TestBombsAreSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	s := testgit.Serve(t)
	for _, c := range Bombs() {
		t.Run(c.Name, func(t *testing.T) {
			head, err := c.Build(filepath.Dir(s.Path("x")), c.Name, Bait{})
			if err != nil {
				t.Fatal(err)
			}
			var size int64
			if err := filepath.WalkDir(s.Path(c.Name), func(_ string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				info, err := d.Info()
				if err == nil {
					size += info.Size()
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", size)
			if size > 2<<20 {
				t.Errorf("the repository has %d bytes, want 2 MiB at most", size)
			}
			if c.sends != "" {
				return // it would take hours
			}
			s.Route(c.Name, c.Faults(s.Path(c.Name), Bait{})...)
			out, err := shell(t.TempDir(), `git -c gc.auto=0 clone -q --bare "$REPO" b && git -C b rev-parse refs/heads/main`, "REPO="+s.URL(c.Name))
			if err != nil || out != head+"\n" {
				t.Errorf("got %v %q, want %s", err, out, head)
			}
		})
	}
}

// git accepts a small pack of deltas, so it can refuse a large one only for its size.
func TestDeltasAreValid(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	dir := t.TempDir()
	r := create(filepath.Join(dir, "deltas.git"))
	const n = 60
	r.deltas(20<<20, n) // a whole copy and a part
	if r.err != nil {
		t.Fatal(r.err)
	}
	out, err := shell(dir, `git init -q --bare b && git -C b index-pack --strict --stdin <deltas.git/`+bombPack+` >/dev/null &&
		git -C b cat-file -e "$HEAD^{tree}" && git show-index <$(ls b/objects/pack/*.idx) | wc -l`, "HEAD="+r.head)
	if want := fmt.Sprintln(n + 4); err != nil || out != want {
		t.Errorf("got %v %q, want %s objects", err, out, want)
	}
}
