package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/tree"
)

// survey counts the files outside of .git that differ from the layers below an
// upper that nobody uses, and what the upper takes on disk.
func survey(ctx context.Context, upper string) (disk.Survey, error) {
	q := disk.Query{Skip: []string{".git", tree.CacheLink}, Pace: disk.NewPace(surveyRest), Budget: disk.Budget}
	return q.Take(ctx, upper)
}

// surveyRest is how long the count of a discard rests, in percent of the time that
// it works: nobody waits for it.
const surveyRest = 300

// touched reports whether an upper that nobody uses has anything in it that its
// workspace did not begin with and that is worth keeping: a file that was written
// or removed, or a directory that was replaced. What git writes when it only looks
// is none: the index, and the times of a pack; nor is an empty directory, as the
// engine makes it for a mount within. What can't be read, or takes too long to be
// looked for in the layers below, may be worth keeping. lower are these layers.
func touched(ctx context.Context, upper string, lower []string) (bool, error) {
	if _, err := os.Lstat(upper); err != nil {
		return false, err
	}
	ctx, found := context.WithCancel(ctx)
	defer found()
	v := &changeFinder{found: found, lower: lower}
	var err error
	disk.Nice(func() { err = disk.Walk(ctx, upper, v, disk.NewPace(touchedRest)) })
	if v.changed || errors.Is(err, disk.ErrMoved) {
		return true, nil
	}
	return false, err
}

const (
	// touchedRest is as surveyRest: a little, for the next Mount of a volume may
	// wait for it. What has no changes but few files never rests.
	touchedRest = 100
	// maxSpecial is how deep lies what is looked at by its path: .git/objects/pack/x.
	maxSpecial = 4
	// maxKnown is how deep directories are known by name: a container makes them as
	// deep as it likes, with names of 255 bytes.
	maxKnown = 16
	// maxLooks is how often a lower layer is looked into: some 50 ms.
	maxLooks = 10_000
)

// changeFinder walks until it has seen a change.
type changeFinder struct {
	found   context.CancelFunc
	lower   []string
	changed bool
	names   []string // of the directories that we are in, the first maxKnown
	looks   int      // into lower layers
}

func (v *changeFinder) Visit(e disk.Entry) (enter bool) {
	if e.Depth == 0 {
		return true
	}
	if e.Depth <= maxKnown {
		v.names = append(v.names[:e.Depth-1], e.Name)
	}
	path := ""
	if e.Depth <= maxSpecial {
		path = strings.Join(v.names, "/")
	}
	if path == tree.CacheMount {
		return false // what a container wrote there without the mount
	}
	kind := e.Type
	if kind == unix.DT_UNKNOWN {
		kind = typeOf(e)
	}
	if v.isChange(path, kind, e) {
		v.changed = true
		v.found()
		return false
	}
	return kind == unix.DT_DIR
}

func (v *changeFinder) Leave(disk.Entry) {}

func (v *changeFinder) Skip(disk.Entry, error) { v.changed = true }

// isChange reports whether something of an upper is a change.
func (v *changeFinder) isChange(path string, kind uint8, e disk.Entry) bool {
	switch path {
	case ".git/index", ".git/" + aboutName:
		return kind != unix.DT_REG
	case tree.CacheLink:
		return kind != unix.DT_LNK
	}
	switch {
	case kind == unix.DT_DIR:
		return hasAttribute(e, "trusted.overlay.opaque") && v.hides(e)
	case kind == unix.DT_REG && strings.HasPrefix(path, ".git/objects/pack/"):
		return !hasAttribute(e, "trusted.overlay.metacopy")
	}
	return true
}

// hides reports whether there is something below a directory that shows nothing of
// the layers: a new one shows nothing either.
func (v *changeFinder) hides(e disk.Entry) bool {
	if e.Depth > maxKnown {
		return true
	}
	path := strings.Join(v.names, "/")
	for _, dir := range v.lower {
		if v.looks++; v.looks > maxLooks {
			return true
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return true
		}
		_, err = root.Lstat(path)
		root.Close()
		if !errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}

// typeOf asks for what the directory did not say.
func typeOf(e disk.Entry) uint8 {
	var st unix.Stat_t
	if err := unix.Fstatat(e.Dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return unix.DT_UNKNOWN
	}
	return uint8(st.Mode & unix.S_IFMT >> 12) // which is how the types are defined
}

// hasAttribute reports whether an entry itself has an extended attribute.
func hasAttribute(e disk.Entry, name string) bool {
	_, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", e.Dir, e.Name), name, nil)
	return err == nil
}
