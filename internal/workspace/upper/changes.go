package upper

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// Changed reports whether an upper that nobody uses has changes: a file was written or
// removed, or a directory was replaced. lower are the layers below the upper of rec, without those of warm, which are
// paths of directories whose changes do not count. The error is os.ErrNotExist if the upper is gone.
//
// These are no changes: what the workspace began with; a file whose owner or mode was changed and changed back; the
// indexes, the times of a pack and FETCH_HEAD, which git also writes when it only reads, or fetches nothing new; and an
// empty directory or file that the engine makes for a mount in the workspace. An entry that can't be read, or whose
// search in the layers takes too long, counts as a change. An upper that is a copy without extended attributes has
// changes, because nothing tells what it had.
func Changed(ctx context.Context, upper string, rec meta.Workspace, lower, warm []string) (bool, error) {
	if whole, err := overlay.Marked(upper); err != nil || !whole {
		return err == nil, err
	}
	ctx, found := context.WithCancel(ctx)
	defer found()
	v := &changeFinder{found: found, rec: rec, lower: lower, warm: warm}
	var err error
	if handout.Wanted(rec.Options) && len(lower) > 0 {
		if v.config, err = configText(lower[0], rec); err != nil {
			return true, nil
		}
	}
	disk.Nice(disk.Lowest, func() { err = disk.Walk(ctx, upper, v, disk.NewPace(changesRest)) })
	if v.changed || errors.Is(err, disk.ErrMoved) {
		return true, nil
	}
	return false, err
}

const (
	// changesRest is how long the walk rests, in percent of the time that it works. It is
	// short, because the next Mount of a volume may wait for the result. An upper with few
	// files never rests.
	changesRest = 100
	// maxSpecial is the depth of the deepest path that has a rule: .git/objects/pack/x.
	maxSpecial = 4
	// maxKnown is the depth to which names are kept, because a container can make
	// directories as deep as it likes, with names of 255 bytes.
	maxKnown = 16
	// maxLooks is how many paths are looked up in lower layers, which takes some 50 ms.
	maxLooks = 10_000
)

// changeFinder is a disk.Visitor that ends the walk at the first change.
type changeFinder struct {
	found   context.CancelFunc
	rec     meta.Workspace
	lower   []string
	warm    []string // paths
	config  []byte   // what .git/config began with; nil if it is that of the git layer
	changed bool
	names   []string // of the current entry and its parents, at most maxKnown
	looks   int      // in lower layers
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
	if path == cache.Mount {
		return false // what is new there was published, or is not to be
	}
	kind := e.Kind()
	if v.isWarm(kind, e) {
		return false
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

// isWarm reports whether an entry is a directory at a warm path, or the whiteout of one or of a parent that the layers below
// don't have. A file or a link there is like any other.
func (v *changeFinder) isWarm(kind uint8, e disk.Entry) bool {
	if len(v.warm) == 0 || e.Depth > maxKnown || kind != unix.DT_DIR && kind != unix.DT_CHR {
		return false
	}
	at := strings.Join(v.names, "/")
	is := slices.Contains(v.warm, at)
	if kind == unix.DT_DIR {
		return is
	}
	st, err := upfile.Stat(e.Dir, e.Name)
	if err != nil || upfile.Kind(&st) != upfile.Whiteout {
		return false
	}
	return is || slices.ContainsFunc(v.warm, func(path string) bool { return strings.HasPrefix(path, at+"/") }) && !v.hides(e)
}

// isChange reports whether an entry of an upper is a change.
func (v *changeFinder) isChange(path string, kind uint8, e disk.Entry) bool {
	if v.isAsBelow(kind, e) {
		return false
	}
	switch path {
	case ".git/config":
		return kind != unix.DT_REG || !hasContent(e, v.config)
	case ".git/" + aboutName:
		return kind != unix.DT_REG
	case cache.Link:
		return kind != unix.DT_LNK || !linksTo(e, cache.Mount)
	}
	switch {
	case isOfReading(v.names):
		return kind != unix.DT_REG
	case kind == unix.DT_CHR && len(v.rec.From) > 0 && isLock(v.names):
		return false // see Unlock
	case kind == unix.DT_DIR:
		return e.HasAttribute("trusted.overlay.opaque") && v.hides(e)
	case kind == unix.DT_REG && strings.HasPrefix(path, ".git/objects/pack/"):
		return !e.HasAttribute("trusted.overlay.metacopy")
	case kind == unix.DT_REG && v.names[0] != ".git":
		return !isPoint(e, v.rec) || v.hides(e)
	}
	return true
}

// isOfReading reports whether a path is that of the index, or of what the last fetch has found, or of a submodule's. What
// a fetch brings has other files.
func isOfReading(names []string) bool {
	n := len(names)
	return n >= 2 && names[0] == ".git" && (names[n-1] == "index" || names[n-1] == "FETCH_HEAD") && (n == 2 || names[1] == "modules")
}

// isLock reports whether a path is that of a lock of git.
func isLock(names []string) bool {
	return names[0] == ".git" && strings.HasSuffix(names[len(names)-1], lockSuffix)
}

// hides reports whether an opaque directory or a file hides an entry of a lower layer. A new
// directory is opaque too, and hides nothing.
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

// isAsBelow reports whether an entry is a copy, as a chown makes one, of a file or a link of the layers below, and still has
// its owner, mode and time. A file has no data of its own then, if the kernel can copy files without their data.
func (v *changeFinder) isAsBelow(kind uint8, e disk.Entry) bool {
	isCopy := kind == unix.DT_LNK || kind == unix.DT_REG && e.HasAttribute("trusted.overlay.metacopy") && !e.HasAttribute("trusted.overlay.redirect")
	if !isCopy || e.Depth > maxKnown || len(v.rec.From) > 0 || hasOtherAttributes(e) { // lower has checkpoints last, which are on top
		return false
	}
	now, err := upfile.Stat(e.Dir, e.Name)
	if err != nil {
		return false
	}
	path := strings.Join(v.names, "/")
	for _, dir := range v.lower {
		if v.looks++; v.looks > maxLooks {
			return false
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return false
		}
		info, err := root.Lstat(path)
		target := ""
		if err == nil && kind == unix.DT_LNK {
			target, err = root.Readlink(path)
		}
		root.Close()
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return false
		}
		was, ok := info.Sys().(*syscall.Stat_t)
		return ok && now.Mode == was.Mode && now.Uid == was.Uid && now.Gid == was.Gid && now.Size == was.Size &&
			now.Mtim.Sec == was.Mtim.Sec && now.Mtim.Nsec == was.Mtim.Nsec && (kind != unix.DT_LNK || linksTo(e, target))
	}
	return false
}

// hasOtherAttributes reports whether an entry has extended attributes that are neither overlayfs's nor a label of SELinux.
func hasOtherAttributes(e disk.Entry) bool {
	buf := make([]byte, 1<<10)
	n, err := unix.Llistxattr(upfile.Below(e.Dir, e.Name), buf)
	if err != nil {
		return true
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(buf[:n]), "\x00"), "\x00") {
		if name != "" && name != "security.selinux" && !strings.HasPrefix(name, "trusted.overlay.") {
			return true
		}
	}
	return false
}

// linksTo reports whether an entry is a link with that target.
func linksTo(e disk.Entry, target string) bool {
	buf := make([]byte, len(target)+1)
	n, err := unix.Readlinkat(e.Dir, e.Name, buf)
	return err == nil && string(buf[:n]) == target
}

// hasContent reports whether an entry is a file with that content.
func hasContent(e disk.Entry, want []byte) bool {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), e.Name)
	defer f.Close()
	got, err := io.ReadAll(io.LimitReader(f, int64(len(want))+1))
	return err == nil && bytes.Equal(got, want) && len(want) > 0
}
