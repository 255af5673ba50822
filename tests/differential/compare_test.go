package differential

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/tests/testgit"
)

// facts is what a work tree and its repository have, by kind.
type facts map[string]string

// questions are the commands of git whose answers are facts.
var questions = map[string][]string{
	"status": {"status", "--porcelain=v2", "--branch", "--untracked-files=all", "--ignored"},
	"index":  {"ls-files", "--stage", "-z"},
	"refs":   {"for-each-ref", "--format=%(refname) %(objectname) %(symref)"},
	// All that are there, whether or not a ref reaches them.
	"objects": {"cat-file", "--batch-all-objects", "--batch-check"},
}

// look returns the facts of a repository, without some, and without those of fsck.
func look(dir string, omit []string) (facts, error) {
	f := make(facts)
	for name, args := range questions {
		if slices.Contains(omit, name) {
			continue
		}
		out, err := testgit.Run(testgit.Command(dir, append([]string{"--no-optional-locks"}, args...)...))
		if err != nil {
			return nil, err
		}
		f[name] = strings.ReplaceAll(out, "\x00", "\n")
	}
	if shallow, err := os.ReadFile(filepath.Join(dir, ".git/shallow")); err == nil {
		lines := strings.Fields(string(shallow))
		slices.Sort(lines)
		f["shallow"] = strings.Join(lines, "\n")
	}
	return f, f.addFiles(dir)
}

// fsck reads every object of a repository, and returns what is missing, damaged or odd.
func fsck(dir string) string {
	cmd := testgit.Command(dir, "fsck", "--full", "--strict", "--no-dangling", "--no-progress")
	out, err := cmd.CombinedOutput()
	if err != nil {
		out = fmt.Appendln(out, err)
	}
	return string(out)
}

// compare returns how a workspace differs from a plain clone, without some kinds of facts. It is empty if they are
// equal.
func compare(workspace, plain string, omit ...string) (string, error) {
	got, err := look(workspace, omit)
	if err != nil {
		return "", fmt.Errorf("the workspace: %w", err)
	}
	want, err := look(plain, omit)
	if err != nil {
		return "", fmt.Errorf("the plain clone: %w", err)
	}
	if !slices.Contains(omit, "fsck") {
		if got["fsck"] = fsck(workspace); got["fsck"] != "" { // objects of real repositories may be odd
			want["fsck"] = fsck(plain)
		}
	}
	return differences(got, want), nil
}

// addFiles adds the files of a work tree: their modes, and their contents or targets.
func (f facts) addFiles(dir string) error {
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil // of a submodule
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch {
		case d.Type() == fs.ModeSymlink:
			var to string
			to, err = os.Readlink(path)
			content = []byte(to)
		case d.Type().IsRegular():
			content, err = os.ReadFile(path)
		}
		fmt.Fprintf(&all, "%q %v %d %x\n", strings.TrimPrefix(path, dir), info.Mode(), len(content), sha256.Sum256(content))
		return err
	})
	f["files"] = all.String()
	return err
}

// differences returns what two repositories do not have in common.
func differences(got, want facts) string {
	all := maps.Clone(want)
	maps.Copy(all, got)
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		if got[kind] == want[kind] {
			continue
		}
		fmt.Fprintf(&b, "%s:\n", kind)
		lists(&b, "the workspace alone has", got[kind], want[kind])
		lists(&b, "the workspace lacks", want[kind], got[kind])
	}
	return b.String()
}

// lists writes the lines that only one text has, up to ten.
func lists(b *strings.Builder, what, text, other string) {
	known := make(map[string]bool)
	for line := range strings.Lines(other) {
		known[strings.TrimSuffix(line, "\n")] = true
	}
	n := 0
	for line := range strings.Lines(text) {
		if line = strings.TrimSuffix(line, "\n"); known[line] {
			continue
		}
		if n++; n <= 10 {
			fmt.Fprintf(b, "  %s %.200s\n", what, line)
		}
	}
	if n > 10 {
		fmt.Fprintf(b, "  %s %d in all\n", what, n)
	}
}
