package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxLinked bounds how many inodes with several links are remembered. Each link of
// further ones counts as a fraction.
const maxLinked = 1 << 18

// Budget is how long measuring the files of one container may take while others wait,
// rests included.
const Budget = time.Minute

// errBudget means that a Query's Budget ended before the walk.
var errBudget = errors.New("there is too much to measure in time")

// AtLeast reports whether an error of Take is one that a container can cause: the Survey
// is a lower bound then.
func AtLeast(err error) bool { return errors.Is(err, ErrMoved) || errors.Is(err, errBudget) }

// Query says what Take counts.
type Query struct {
	// Own excludes files that have other links, such as a git layer's links to the packs
	// of its store.
	Own bool
	// Skip lists paths below the directory, such as "a/b", that Files excludes with all
	// that is in them. Size includes them.
	Skip []string
	// Owner, if not nil, is the uid that files and links should belong to: Foreign is the first
	// other one. Paths to skip and whiteouts of an overlay do not count.
	Owner *uint32
	// Pace may be nil.
	Pace *Pace
	// Budget is how long Take may take, 0 for any time. AtLeast is true for the error
	// when it ends.
	Budget time.Duration
}

// Survey is the result of Take.
type Survey struct {
	// Size is that of the path and all below: allocated blocks, each inode once.
	Size
	// Files counts the names that are not directories. In the upper of an overlay these
	// are the changed files; a whiteout counts as one.
	Files int64
	// Foreign is the uid of a file that does not belong to Query.Owner; nil if none was found.
	Foreign *uint32
}

// Take walks path, which a program may be writing to: see Walk. The Survey that it
// returns with an error is what it counted until then.
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
	if err = cmp.Or(err, s.err); err != nil {
		err = fmt.Errorf("measure %q: %w", path, err)
	}
	return s.total(), err
}

// Measure returns the size of path and all below: allocated blocks, each inode once.
func Measure(ctx context.Context, path string) (Size, error) {
	s, err := Query{}.Take(ctx, path)
	return s.Size, err
}

type surveyor struct {
	query  Query
	found  Survey
	linked map[uint64]struct{}
	shared struct{ bytes, inodes float64 }
	// skip has the nodes of the directories on the way from the top to the current one,
	// as far as they lead to a path to skip.
	skip []*node
	err  error // the first
}

// node is a directory on the way to a path to skip.
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
		kind := st.Mode & unix.S_IFMT
		if owner := s.query.Owner; owner != nil && s.found.Foreign == nil && st.Uid != *owner && (kind == unix.S_IFREG || kind == unix.S_IFLNK) {
			uid := st.Uid
			s.found.Foreign = &uid
		}
	}
	s.add(&st, dir)
	return dir
}

// add counts an inode, unless it was counted before.
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

// skipped reports whether e is a path to skip or below one, and updates s.skip.
func (s *surveyor) skipped(e Entry) bool {
	s.skip = s.skip[:min(len(s.skip), e.Depth)]
	last := s.skip[len(s.skip)-1]
	if !last.all && len(s.skip) == e.Depth && last.below[e.Name] != nil {
		last = last.below[e.Name]
		s.skip = append(s.skip, last)
	}
	return last.all
}

// total returns the counts, with the fractions.
func (s *surveyor) total() Survey {
	found := s.found
	found.Size = found.Add(Size{int64(s.shared.bytes + 0.5), int64(s.shared.inodes + 0.5)})
	return found
}

func (s *surveyor) Leave(Entry) {}

func (s *surveyor) Skip(e Entry, err error) { s.failed(e, err) }

// failed records an error, unless a concurrent change or a mount explains it.
func (s *surveyor) failed(e Entry, err error) {
	gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
	mount := errors.Is(err, unix.EXDEV)
	if (e.Depth == 0 || !gone && !mount) && s.err == nil {
		s.err = fmt.Errorf("%q: %w", e.Name, err)
	}
}
