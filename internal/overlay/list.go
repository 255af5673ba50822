package overlay

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Point is a mount as this process sees it.
type Point struct {
	// Path is the mount point, absolute.
	Path string
	// Source is the source that the mount was made with.
	Source string
	// Type is the filesystem's type: "overlay" after Mount, the bound directory's after
	// Bind.
	Type string
}

// Mounts lists all mounts at root and below it, of any type, in an order in which they
// can be detached one by one: the deepest first, and of several at one place the topmost
// first. Where mounts propagate, one Detach may remove another one on the list too: its
// own Detach then returns ErrNotMounted.
func Mounts(root string) ([]Point, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	// mountinfo has paths without symbolic links.
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(root))
	if err != nil {
		return nil, fmt.Errorf("list mounts below %q: %w", root, err)
	}
	points := make([]Point, 0, len(infos))
	for _, m := range infos {
		points = append(points, Point{Path: m.Mountpoint, Source: m.Source, Type: m.FSType})
	}
	slices.Reverse(points)
	slices.SortStableFunc(points, func(a, b Point) int {
		return strings.Count(b.Path, "/") - strings.Count(a.Path, "/")
	})
	return points, nil
}
