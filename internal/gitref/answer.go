// Package gitref parses the answers of git and its servers about refs: ls-refs of protocol
// 2, the output of git ls-remote, and object IDs.
//
// It starts no processes, and opens no files and connections: callers pass readers. The
// remote controls what they read, so everything is checked, and bounded in bytes and
// refs. Memory use does not depend on the size of an answer.
package gitref

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/volume"
)

const (
	// MaxListed is how many refs an Answer has for names that end with a slash. They are
	// compared at every mount: 200 take some 14 KB of an answer, which does not slow a
	// mount.
	MaxListed = 200
	// maxListedBytes bounds the size of their names: some 300 bytes each on average.
	maxListedBytes = 64 << 10
	// maxAnswer bounds the size of an answer, of which little is kept. It is enough for a
	// million refs, from a remote that ignores prefixes or has that many below one. A
	// larger answer may never end.
	maxAnswer = 128 << 20
	// PeeledSuffix follows the name of an annotated tag to denote the object that it
	// points to.
	PeeledSuffix = "^{}"
)

// errCut means that an answer is incomplete.
var errCut = fmt.Errorf("the remote's answer is cut short: %w", io.ErrUnexpectedEOF)

// Answer has the requested refs of a remote. A request names them in full; a name that
// ends with a slash stands for all refs below it, up to MaxListed.
type Answer struct {
	// Head is the branch that the remote's HEAD points to, such as "refs/heads/main";
	// empty if HEAD is detached or missing.
	Head string
	// Format is the format of the object IDs, SHA1 or SHA256.
	Format string
	// IDs has object IDs by full ref name, including "HEAD". The commit of an annotated
	// tag is under its name with PeeledSuffix appended. Missing refs have no entry.
	IDs map[string]string
	// More is set if IDs does not have all refs below a name that ends with a slash.
	More bool
}

// collector keeps the requested refs of an answer of any length.
type collector struct {
	names  []string
	answer Answer
	listed int // refs below names that end with a slash
	bytes  int // size of their names
}

func newCollector(names []string, format string) *collector {
	return &collector{names: names, answer: Answer{Format: format, IDs: make(map[string]string)}}
}

// add stores the ID of a requested ref, and reports whether it did. The collector ignores
// all others.
func (c *collector) add(name, id string) bool {
	requested := name == "HEAD" || slices.Contains(c.names, name)
	if slices.ContainsFunc(c.names, func(n string) bool { return strings.HasSuffix(n, "/") && strings.HasPrefix(name, n) }) {
		c.listed++
		c.bytes += len(name)
		if c.listed > MaxListed || c.bytes > maxListedBytes {
			c.answer.More = true
		} else {
			requested = true
		}
	}
	if requested {
		c.answer.IDs[name] = id
	}
	return requested
}

// setHead sets the default branch, unless target is not a valid branch: a remote may
// claim anything.
func (c *collector) setHead(target string) {
	if _, err := volume.ParseRef(target); err == nil && strings.HasPrefix(target, "refs/heads/") {
		c.answer.Head = target
	}
}

// bounded reads an answer that may have at most left more bytes.
type bounded struct {
	io.Reader
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the remote's answer has more than %d MiB", maxAnswer>>20)
	}
	return n, err
}
