package verbs

import (
	"cmp"
	"fmt"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/volume"
)

// Limits says how much the workspaces of volumes may hold. A number that is zero is no limit.
type Limits struct {
	Default disk.Size // of a volume that asks for none
	Max     disk.Size // the most that a volume may ask for
	// Unsupported says why no limit holds on this machine's filesystem; nil if limits hold.
	Unsupported error
}

// of returns the limit of a new workspace of a volume. The error is a *volume.OptionError. A default that does not hold
// is no error, because whoever makes the volume can't change it: then there is no limit, and Ignored says so.
func (l Limits) of(o volume.Options) (disk.Size, error) {
	for _, of := range []struct {
		option, setting string
		asked, most     int64
		text            func(int64) string
	}{
		{"size", "WORKSPACE_MAX_SIZE", o.Size, l.Max.Bytes, volume.FormatSize},
		{"inodes", "WORKSPACE_MAX_INODES", o.Inodes, l.Max.Inodes, func(n int64) string { return fmt.Sprint(n) }},
	} {
		problem, allowed := "", ""
		switch {
		case of.asked == 0:
		case l.Unsupported != nil:
			problem = fmt.Sprintf("does not hold here: %v", l.Unsupported)
		case of.most > 0 && of.asked > of.most:
			problem, allowed = "is more than the setting "+of.setting+" allows", "up to "+of.text(of.most)
		}
		if problem != "" {
			return disk.Size{}, volume.Refuse(of.option, of.text(of.asked), problem, allowed)
		}
	}
	if l.Unsupported != nil {
		return disk.Size{}, nil
	}
	return disk.Size{Bytes: cmp.Or(o.Size, l.Default.Bytes), Inodes: cmp.Or(o.Inodes, l.Default.Inodes)}, nil
}

// Ignored says that the settings have a default that does not hold; empty if not.
func (l Limits) Ignored() string {
	if l.Default == (disk.Size{}) || l.Unsupported == nil {
		return ""
	}
	return fmt.Sprintf("WORKSPACE_SIZE, WORKSPACE_INODES and their maxima have no effect: %v", l.Unsupported)
}
