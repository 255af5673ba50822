package disk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxLinked bounds the memory for inodes with several links. Beyond, each link
// counts its share.
const maxLinked = 1 << 18

// Budget is how long a walk of what one container writes may take while others
// wait, rests included.
const Budget = time.Minute

// errBudget says that there is more than could be looked at in time.
var errBudget = errors.New("there is too much to be measured in time")

// AtLeast says of an error of Take that there was no other trouble than what
// containers can make: what was found is good, and there is more.
func AtLeast(err error) bool { return errors.Is(err, ErrMoved) || errors.Is(err, errBudget) }

// Query says what a Survey counts.
type Query struct {
	// Own leaves out files that have other links: those of a git layer to the
	// packs of its store.
	Own bool
	// Skip are paths below the directory, like "a/b", with all that is in them,
	// that Files leaves out. Size has them.
	Skip []string
	// Pace may be nil.
	Pace *Pace
	// Budget is how long it may take; then AtLeast says so of the error. 0 is no bound.
	Budget time.Duration
}

// Survey is what was found below a path.
type Survey struct {
	// Size is of the path and all below: allocated blocks, each inode once.
	Size
	// Files counts names of all that is no directory. In the upper of an overlay
	// these are the files that differ; a whiteout is one.
	Files int64
}

// Take surveys path, a directory that a program may be writing to: see Walk. What
// it returns with ErrMoved or with another error is what it had found.
func (q Query) Take(ctx context.Context, path string) (Survey, error) {
	s := &surveyor{query: q, linked: make(map[uint64]struct{}), skip: []*node{newNode(q.Skip)}}
	walk := ctx
	if q.Budget != 0 {
		var cancel context.CancelFunc
		walk, cancel = context.WithTimeout(ctx, q.Budget)
		defer cancel()
	}
	err := Walk(walk, path, s, q.Pace)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = errBudget
	}
	if err == nil {
		err = s.err
	}
	if err != nil {
		err = fmt.Errorf("measure %q: %w", path, err)
	}
	return s.total(), err
}

// Measure returns what path and all below take: allocated blocks, each inode
// once.
func Measure(ctx context.Context, path string) (Size, error) {
	s, err := Query{}.Take(ctx, path)
	return s.Size, err
}

type surveyor struct {
	query  Query
	found  Survey
	linked map[uint64]struct{}
	shared struct{ bytes, inodes float64 }
	// skip are the nodes of the directories from the top to where we are, as far
	// as a path to skip may lie below.
	skip []*node
	err  error // the first
}

// node is a directory on the way to what is to be skipped.
type node struct {
	all   bool // to be skipped itself
	below map[string]*node
}

func newNode(paths []string) *node {
	root := &node{below: make(map[string]*node)}
	for _, path := range paths {
		at := root
		for name := range strings.SplitSeq(path, "/") {
			if at.below[name] == nil {
				at.below[name] = &node{below: make(map[string]*node)}
			}
			at = at.below[name]
		}
		at.all = true
	}
	return root
}

func (s *surveyor) Visit(e Entry) bool {
	var st unix.Statx_t
	err := unix.Statx(e.Dir, e.Name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	if err != nil {
		s.failed(e, err)
		return false
	}
	if e.Depth > 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return false
	}
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !dir && st.Nlink > 1 && s.query.Own {
		return false
	}
	if skipped := e.Depth > 0 && s.skipped(e); !dir && !skipped {
		s.found.Files++
	}
	s.add(&st, dir)
	return dir
}

// add counts an inode, if it is the first time.
func (s *surveyor) add(st *unix.Statx_t, dir bool) {
	size := Size{int64(st.Blocks) * 512, 1}
	if !dir && st.Nlink > 1 {
		_, known := s.linked[st.Ino]
		switch {
		case known:
			return
		case len(s.linked) < maxLinked:
			s.linked[st.Ino] = struct{}{}
		default:
			s.shared.bytes += float64(size.Bytes) / float64(st.Nlink)
			s.shared.inodes += 1 / float64(st.Nlink)
			return
		}
	}
	s.found.Size = s.found.Add(size)
}

// skipped says whether e is, or is below, what is to be skipped, and remembers
// where we are.
func (s *surveyor) skipped(e Entry) bool {
	s.skip = s.skip[:min(len(s.skip), e.Depth)]
	last := s.skip[len(s.skip)-1]
	if !last.all && len(s.skip) == e.Depth && last.below[e.Name] != nil {
		last = last.below[e.Name]
		s.skip = append(s.skip, last)
	}
	return last.all
}

// total is what was found, with the shares.
func (s *surveyor) total() Survey {
	found := s.found
	found.Size = found.Add(Size{int64(s.shared.bytes + 0.5), int64(s.shared.inodes + 0.5)})
	return found
}

func (s *surveyor) Leave(Entry) {}

func (s *surveyor) Skip(e Entry, err error) { s.failed(e, err) }

// failed remembers an error, unless it is one of what changes under us.
func (s *surveyor) failed(e Entry, err error) {
	gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
	mount := errors.Is(err, unix.EXDEV)
	if (e.Depth == 0 || !gone && !mount) && s.err == nil {
		s.err = fmt.Errorf("%q: %w", e.Name, err)
	}
}
