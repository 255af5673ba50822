package gitserver

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Change is what a commit does to one path.
type Change struct {
	Path    string
	Content string
	Mode    string // "100644" when empty; "100755", or "120000" for a symlink to Content
	Delete  bool   // removes Path, the other fields are unused
}

// Commit adds a commit with the changes to a branch of the bare repository at path, as a push by somebody else would,
// and returns its id. A branch that does not exist starts with an empty tree. A name that begins with refs/ is taken
// as it is, for refs that are no branches. Two commits at the same time to one branch: one of them may fail.
func Commit(path, branch string, changes ...Change) (string, error) {
	ref := branch
	if !strings.HasPrefix(ref, "refs/") {
		ref = "refs/heads/" + branch
	}
	var in bytes.Buffer
	w := stream{&in}
	_, err := git(path, nil, "rev-parse", "--verify", "--quiet", ref)
	w.commit(commit{ref: ref, mark: 1, when: time.Now(), message: "change " + branch, onto: err == nil})
	for _, c := range changes {
		if c.Delete {
			fmt.Fprintf(w, "D %s\n", quote(c.Path))
			continue
		}
		w.file(c.Mode, c.Path, c.Content)
	}
	// The empty line ends the commit, before which its mark is unknown. get-mark answers on standard output.
	io.WriteString(w, "\nget-mark :1\ndone\n")
	sha, err := git(path, &in, "fast-import", "--quiet", "--done")
	if err != nil {
		return "", fmt.Errorf("commit to %q: %w", branch, err)
	}
	return sha, nil
}

// stream writes the commands of git fast-import. Errors are those of the writer below: a pipe's end, which fast-import
// explains better, or memory, which has none.
type stream struct{ io.Writer }

type commit struct {
	ref     string
	mark    int
	when    time.Time
	message string
	onto    bool // continue the ref as it is in the repository
	from    int  // or start from this mark
}

func (w stream) commit(c commit) {
	fmt.Fprintf(w, "commit %s\nmark :%d\ncommitter %s\n", c.ref, c.mark, ident(c.when))
	w.data(c.message + "\n")
	switch {
	case c.onto:
		fmt.Fprintf(w, "from %s^0\n", c.ref)
	case c.from != 0:
		fmt.Fprintf(w, "from :%d\n", c.from)
	}
}

func (w stream) file(mode, path, content string) {
	if mode == "" {
		mode = "100644"
	}
	fmt.Fprintf(w, "M %s inline %s\n", mode, quote(path))
	w.data(content)
}

func (w stream) data(s string) {
	fmt.Fprintf(w, "data %d\n%s\n", len(s), s)
}

func ident(when time.Time) string {
	return fmt.Sprintf("Ada Example <ada@example.com> %d +0000", when.Unix())
}

// quote is a path in fast-import's notation: C-style quotes, needed for what begins with a quote or holds a newline,
// and allowed for all.
func quote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}
