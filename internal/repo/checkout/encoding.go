package checkout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// Unencoded is a file that git could not write in the encoding of its attribute
// working-tree-encoding, because iconv does not know the encoding, the content is not
// UTF-8, or the encoding lacks a character. git writes the bytes of the commit instead,
// and does not fail.
type Unencoded struct {
	Path, Encoding gitref.Text // as printed by git
}

func (u Unencoded) String() string { return fmt.Sprintf("%q (%q)", u.Path, u.Encoding) }

// maxUnencoded bounds how many such files are reported.
const maxUnencoded = 10

// encodings collects the files that git could not encode. It is safe for concurrent use.
type encodings struct {
	mu     sync.Mutex
	failed []Unencoded
}

const (
	encodeFailed = "error: failed to encode '"
	encodeFromTo = "' from UTF-8 to "
)

// stderrLine handles a line of git's stderr.
func (e *encodings) stderrLine(line string) {
	rest, ok := strings.CutPrefix(line, encodeFailed)
	if !ok {
		return
	}
	u := Unencoded{Path: gitref.Text(rest)} // only the first line of a name with a line end
	if i := strings.LastIndex(rest, encodeFromTo); i >= 0 {
		u = Unencoded{Path: gitref.Text(rest[:i]), Encoding: gitref.Text(rest[i+len(encodeFromTo):])}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.failed) < maxUnencoded {
		e.failed = append(e.failed, u)
	}
}

// errNoConverters means that the system is incomplete: it is not the file's fault.
var errNoConverters = errors.New("git finds no converters: the modules of glibc's iconv are missing from the system that git runs in")

// probeAttributes is a temporary file in the repository of a checkout. probeIndex never
// exists.
const (
	probeAttributes = "attributes.probe"
	probeIndex      = "index.probe"
)

// findConverters returns an error if git can't convert from an encoding that every
// complete system knows: then a file that could not be encoded may be fine elsewhere, and
// the checkout must fail.
func (g runner) findConverters(ctx context.Context, c Spec) error {
	path := filepath.Join(c.gitDir(), probeAttributes)
	if err := os.WriteFile(path, []byte("* working-tree-encoding=UTF-16\n"), 0o644); err != nil {
		return err
	}
	missing := false
	// Use neither the work tree nor its index, because their attributes take precedence.
	err := g.runIn(ctx, c, probeIndex, "\xff\xfea\x00", func(line string) {
		missing = missing || strings.HasPrefix(line, encodeFailed)
	}, "--work-tree="+c.gitDir(), "-c", "core.attributesFile="+path, "hash-object", "--stdin", "--path=probe")
	if err = errors.Join(err, os.Remove(path)); err == nil && missing {
		err = errNoConverters
	}
	return err
}

// checkEncoded sets ix.unencoded, or fails if converters are missing.
func (g runner) checkEncoded(ctx context.Context, c Spec, ix *index, e *encodings) error {
	if len(e.failed) == 0 {
		return nil
	}
	err := g.findConverters(ctx, c)
	if errors.Is(err, errNoConverters) {
		err = &giterror.Error{
			Op: "check out " + c.Commit, Kind: giterror.KindOther, Err: err,
			Detail: fmt.Sprintf("%q can't be written in the encoding %q: %v", e.failed[0].Path, e.failed[0].Encoding, err),
		}
	}
	ix.unencoded = e.failed
	return err
}
