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
	// MaxListed is how many refs an Answer has below each name that ends with a slash. They
	// are compared at every mount: 200 take some 14 KB of an answer, which does not slow a
	// mount.
	MaxListed = 200
	// maxListedBytes bounds the size of their names: some 300 bytes each on average.
	maxListedBytes = 64 << 10
	// MaxAnswer is a bound for the size of an answer, of which little is kept. It is enough for
	// a million refs, from a remote that ignores prefixes or has that many below one. A
	// larger answer may never end.
	MaxAnswer = 128 << 20
	// PeeledSuffix follows the name of an annotated tag to denote the object that it
	// points to.
	PeeledSuffix = "^{}"
)

// errCut means that an answer is incomplete.
var errCut = fmt.Errorf("the remote's answer is cut short: %w", io.ErrUnexpectedEOF)

// Answer has the requested refs of a remote. A request names them in full; a name that
// ends with a slash stands for all refs below it.
type Answer struct {
	// Head is the branch that the remote's HEAD points to, such as "refs/heads/main", which
	// has no commit if IDs lacks HEAD. It is empty if HEAD is detached or missing, or if it has
	// no commit and the server does not say more.
	Head string
	// Format is the format of the object IDs, SHA1 or SHA256.
	Format string
	// IDs has object IDs by full ref name, including "HEAD". The commit of an annotated
	// tag is under its name with PeeledSuffix appended. Missing refs have no entry.
	IDs map[string]string
	// Sums has the sum of all refs below each requested name that ends with a slash, except
	// those that are not Listable, and also if IDs does not have them all.
	Sums map[string]Sum
	// Cut has the names that end with a slash below which IDs lacks some refs: there are
	// more than MaxListed, or one is not Listable.
	Cut []string
}

// collector keeps the requested refs of an answer of any length.
type collector struct {
	names  []string
	below  []*below
	answer Answer
}

// below is what a collector knows of the refs below a name that ends with a slash.
type below struct {
	name  string
	sum   Summer
	bytes int // size of their names
	cut   bool
}

func newCollector(names []string, format string) *collector {
	c := &collector{names: names, answer: Answer{Format: format, IDs: make(map[string]string)}}
	for _, n := range names {
		if strings.HasSuffix(n, "/") {
			c.below = append(c.below, &below{name: n})
		}
	}
	return c
}

// add stores the ID of a requested ref, and reports whether it did. The collector ignores
// all others.
func (c *collector) add(name, id string) bool {
	requested := name == "HEAD" || slices.Contains(c.names, name)
	for _, b := range c.below {
		if strings.HasPrefix(name, b.name) && b.add(name, id) {
			requested = true
		}
	}
	if requested {
		c.answer.IDs[name] = id
	}
	return requested
}

// add reports whether the answer is to have a ref.
func (b *below) add(name, id string) bool {
	if !Listable(name) {
		b.cut = true
		return false
	}
	b.sum.Add(name, id)
	b.bytes += len(name)
	if b.sum.count > MaxListed || b.bytes > maxListedBytes {
		b.cut = true
		return false
	}
	return true
}

// done returns the answer.
func (c *collector) done() Answer {
	for _, b := range c.below {
		if c.answer.Sums == nil {
			c.answer.Sums = make(map[string]Sum)
		}
		c.answer.Sums[b.name] = b.sum.Sum()
		if b.cut {
			c.answer.Cut = append(c.answer.Cut, b.name)
		}
	}
	return c.answer
}

// setHead sets the default branch, unless target is not a valid branch: a remote may
// claim anything.
func (c *collector) setHead(target string) {
	if _, err := volume.ParseRef(target); err == nil && strings.HasPrefix(target, "refs/heads/") {
		c.answer.Head = target
	}
}

// LargeError is the error of an answer that has more bytes than this.
type LargeError int

func (e LargeError) Error() string {
	return fmt.Sprintf("the remote's answer has more than %.4g MiB", float64(e)/(1<<20))
}

// bounded reads an answer that may have limit bytes.
type bounded struct {
	io.Reader
	limit, read int
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.read += n; b.read > b.limit {
		return 0, LargeError(b.limit)
	}
	return n, err
}
