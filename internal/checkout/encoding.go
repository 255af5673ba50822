package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/helmdeck/repos/internal/git"
)

// Unencoded is a file that git could not write in the encoding that the attribute
// working-tree-encoding names, because iconv knows no such encoding, or because the
// content is not UTF-8 or has characters that the encoding lacks. It has the bytes
// of the commit, and git does not fail for it.
type Unencoded struct {
	Path, Encoding git.Text // as git prints them
}

func (u Unencoded) String() string { return fmt.Sprintf("%q (%q)", u.Path, u.Encoding) }

// maxUnencoded is how many such files are named: a repository can have any number.
const maxUnencoded = 10

// encodings collects what git says of files that it could not encode. It is safe for
// concurrent use.
type encodings struct {
	mu     sync.Mutex
	failed []Unencoded
}

const (
	encodeFailed = "error: failed to encode '"
	encodeFromTo = "' from UTF-8 to "
)

// said takes a line of git's stderr.
func (e *encodings) said(line string) {
	rest, ok := strings.CutPrefix(line, encodeFailed)
	if !ok {
		return
	}
	u := Unencoded{Path: git.Text(rest)} // of a name with a line end, its first line
	if i := strings.LastIndex(rest, encodeFromTo); i >= 0 {
		u = Unencoded{Path: git.Text(rest[:i]), Encoding: git.Text(rest[i+len(encodeFromTo):])}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.failed) < maxUnencoded {
		e.failed = append(e.failed, u)
	}
}

// errNoConverters is the system's fault, not the file's.
var errNoConverters = errors.New("git finds no converters: the modules of glibc's iconv are missing from the system that git runs in")

// probeAttributes is a file in the repository of a checkout, for a moment; there is
// no probeIndex.
const (
	probeAttributes = "attributes.probe"
	probeIndex      = "index.probe"
)

// findConverters returns an error if git can't convert from an encoding that every
// complete system knows. Then a file that could not be encoded would be right
// elsewhere, and what git did about it must not pass for a checkout.
func (g runner) findConverters(ctx context.Context, c Spec) error {
	path := filepath.Join(c.gitDir(), probeAttributes)
	if err := os.WriteFile(path, []byte("* working-tree-encoding=UTF-16\n"), 0o644); err != nil {
		return err
	}
	missing := false
	// Not in the work tree, and without its index: their attributes come first.
	err := g.runIn(ctx, c, probeIndex, "\xff\xfea\x00", func(line string) {
		missing = missing || strings.HasPrefix(line, encodeFailed)
	}, "--work-tree="+c.gitDir(), "-c", "core.attributesFile="+path, "hash-object", "--stdin", "--path=probe")
	if err = errors.Join(err, os.Remove(path)); err == nil && missing {
		err = errNoConverters
	}
	return err
}

// checkEncoded says of an index what git could not encode of its files, or fails if
// that is for want of converters.
func (g runner) checkEncoded(ctx context.Context, c Spec, ix *index, e *encodings) error {
	if len(e.failed) == 0 {
		return nil
	}
	err := g.findConverters(ctx, c)
	if errors.Is(err, errNoConverters) {
		err = &git.Error{
			Op: "check out " + c.Commit, Kind: git.KindOther, Err: err,
			Detail: fmt.Sprintf("%q can't be written in the encoding %q: %v", e.failed[0].Path, e.failed[0].Encoding, err),
		}
	}
	ix.unencoded = e.failed
	return err
}
