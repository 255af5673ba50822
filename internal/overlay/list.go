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
	// Source is what the mount was given as its source.
	Source string
	// Type is the filesystem's: "overlay" for those of Mount, that of the
	// bound directory for those of Bind.
	Type string
}

// Mounts lists what is mounted at root or below it, of whatever type, in the
// order in which it can be detached one by one: the deepest first, and of
// several on one place the topmost first. Where mounts propagate, one Detach may
// take a second of the list along: ErrNotMounted then means that it is gone.
func Mounts(root string) ([]Point, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	// mountinfo names real paths.
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
