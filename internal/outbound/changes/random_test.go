package changes

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

var epoch = time.Unix(1_000_000_000, 0)

// randomly makes n random changes in a workspace.
func randomly(w *world, seed uint64, n int) {
	w.t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	names := []string{"a", "b c", "d\ne", `"f"`, "\xffg", "h.o", "build", "src", ".gitignore", "x.c", "ü"}
	for range n {
		var files, dirs []string
		must(w.t, filepath.WalkDir(w.spec.Target, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || path == w.spec.Target:
			case d.IsDir() && d.Name() == ".git":
				return filepath.SkipDir
			case d.IsDir():
				dirs = append(dirs, path)
			default:
				files = append(files, path)
			}
			return err
		}))
		pick := func(list []string) string {
			return append(list, filepath.Join(w.spec.Target, "none"))[rnd.IntN(len(list)+1)]
		}
		file, dir := pick(files), pick(append(dirs, w.spec.Target))
		fresh := filepath.Join(dir, names[rnd.IntN(len(names))])
		text := fmt.Sprintf("line\nline %d\n%s", rnd.IntN(3), strings.Repeat("more\n", rnd.IntN(20)))
		if filepath.Base(fresh) == ".gitignore" {
			text = []string{"*.o\n", "/a\n", "b*\n!b c\n", "# nothing\n", "build/\n"}[rnd.IntN(5)]
		}
		// Some fail, because there is something in the way. That is a change of nothing.
		switch rnd.IntN(14) {
		case 0, 1, 2:
			_ = os.MkdirAll(filepath.Dir(fresh), 0o755)
			_ = os.WriteFile(fresh, []byte(text), 0o644)
		case 3:
			_ = os.WriteFile(file, []byte(text), 0o644)
		case 4:
			_ = os.Remove(file)
		case 5:
			if dir != w.spec.Target {
				_ = os.RemoveAll(dir)
			}
		case 6:
			_ = os.Rename(file, fresh)
		case 7:
			if dir != w.spec.Target {
				_ = os.Rename(dir, filepath.Join(w.spec.Target, names[rnd.IntN(len(names))]))
			}
		case 8:
			_ = os.Chmod(file, []fs.FileMode{0o644, 0o755, 0o600, 0o711}[rnd.IntN(4)])
		case 9:
			_ = os.Chtimes(file, epoch, epoch)
		case 10:
			_ = os.Remove(fresh)
			// Cases 0 and 3 write through links: /nowhere/x can't be made, because /nowhere is not there.
			_ = os.Symlink([]string{"README", "/nowhere/x", "..", "a b"}[rnd.IntN(4)], fresh)
		case 11:
			_ = os.Link(file, fresh)
		case 12:
			_ = os.MkdirAll(fresh, 0o755)
		case 13:
			if dir != w.spec.Target { // the same files in a new directory
				old := filepath.Join(w.root, "old")
				_ = os.CopyFS(old, os.DirFS(dir))
				_ = os.RemoveAll(dir)
				_ = os.CopyFS(dir, os.DirFS(old))
				must(w.t, os.RemoveAll(old))
			}
		}
	}
}
