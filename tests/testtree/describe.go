package testtree

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// Describe returns a line for root, which is ".", and for each entry below it, with all that a program can see of it. With raw,
// root is a directory of a layer: which names an inode has counts too. What is at the paths of except, and below, is left out.
func Describe(t testing.TB, root string, raw bool, except ...string) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	first := make(map[uint64]string) // the names of inodes
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if slices.Contains(except, rel) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		st, err := upfile.Stat(unix.AT_FDCWD, path)
		if err != nil {
			return err
		}
		if upfile.Kind(&st) == upfile.Whiteout {
			lines[rel] = "whiteout"
			return nil
		}
		line := fmt.Sprintf("mode %o owner %d:%d mtime %d.%09d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
		if !d.IsDir() {
			line += fmt.Sprintf(" size %d device %x links %d", st.Size, st.Rdev, st.Nlink)
			if st.Nlink > 1 && raw {
				if first[st.Ino] == "" {
					first[st.Ino] = rel
				}
				line += fmt.Sprintf(" is %q", first[st.Ino])
			}
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %.6x", sha256.Sum256(data))
			if len(data) < 100 {
				line += fmt.Sprintf(" %q", data)
			}
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" to %q", target)
		}
		var buf [1024]byte
		n, err := unix.Llistxattr(path, buf[:])
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("attributes of %q: %w", path, err)
		}
		names := strings.FieldsFunc(string(buf[:max(n, 0)]), func(r rune) bool { return r == 0 })
		slices.Sort(names)
		for _, name := range names {
			var buf [1024]byte
			n, err := unix.Lgetxattr(path, name, buf[:])
			if err != nil {
				return fmt.Errorf("%s of %q: %w", name, path, err)
			}
			line += fmt.Sprintf(" %s=%x", name, buf[:n])
		}
		lines[rel] = line
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Differ returns the differences of two descriptions.
func Differ(want, got map[string]string) (list []string) {
	for rel, line := range want {
		if got[rel] != line {
			list = append(list, fmt.Sprintf("%q:\n  want %s\n  got  %s", rel, line, got[rel]))
		}
	}
	for rel, line := range got {
		if want[rel] == "" {
			list = append(list, fmt.Sprintf("%q:\n  want nothing\n  got  %s", rel, line))
		}
	}
	slices.Sort(list)
	return list
}

// Show describes some differences.
func Show(differences []string) string {
	text := strings.Join(differences[:min(len(differences), 8)], "\n")
	return fmt.Sprintf("%d differences:\n%s", len(differences), text)
}
