package gitserver

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
)

// Change is a commit's change of one path.
type Change struct {
	Path    string
	Content string
	Mode    string // "100644" when empty; "100755", or "120000" for a symlink to Content
	Delete  bool   // removes Path, the other fields are unused
}

// Commit adds a commit with the changes to a branch of the bare repository at path, like a push by
// somebody else, and returns its ID. A branch that does not exist starts with an empty tree. A name
// that begins with refs/ is a full ref name. Of two concurrent commits to one branch, one may fail.
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
	// The empty line ends the commit; only then its mark is known. get-mark prints to stdout.
	io.WriteString(w, "\nget-mark :1\ndone\n")
	sha, err := git(path, &in, "fast-import", "--quiet", "--done")
	if err != nil {
		return "", fmt.Errorf("commit to %q: %w", branch, err)
	}
	return sha, nil
}

// stream writes commands for git fast-import. It ignores errors: the writer is a pipe, whose
// failure fast-import explains better, or memory.
type stream struct{ io.Writer }

type commit struct {
	ref     string
	mark    int
	when    time.Time
	message string
	onto    bool // continue the existing ref
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

// quote returns a path in fast-import's notation, with C-style quotes.
func quote(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}
