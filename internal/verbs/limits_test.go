package verbs

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/volume"
)

// TestLimits: a volume gets what it asks for within the maximum, or else the default.
func TestLimits(t *testing.T) {
	off := errors.New("no project quotas")
	const mib, gib = 1 << 20, 1 << 30
	set := Limits{Default: disk.Size{Bytes: gib}, Max: disk.Size{Bytes: 2 * gib, Inodes: 5000}}
	without := set
	without.Unsupported = off
	for _, tt := range []struct {
		name         string
		limits       Limits
		size, inodes int64
		want         disk.Size
		refused      string
	}{
		{"nothing", Limits{}, 0, 0, disk.Size{}, ""},
		{"asked for", Limits{}, 50 * mib, 100, disk.Size{Bytes: 50 * mib, Inodes: 100}, ""},
		{"the default", set, 0, 0, disk.Size{Bytes: gib}, ""},
		{"asked for, beside a default", set, 0, 100, disk.Size{Bytes: gib, Inodes: 100}, ""},
		{"the most", set, 2 * gib, 5000, disk.Size{Bytes: 2 * gib, Inodes: 5000}, ""},
		{"more", set, 2*gib + 1, 0, disk.Size{}, `option "size": "2147483649b" is more than the setting WORKSPACE_MAX_SIZE allows; allowed: up to 2g`},
		{"more inodes", set, gib, 5001, disk.Size{}, `option "inodes": "5001" is more than the setting WORKSPACE_MAX_INODES allows; allowed: up to 5000`},
		{"a default that does not hold", without, 0, 0, disk.Size{}, ""},
		{"a size that does not hold", without, gib, 0, disk.Size{}, `option "size": "1g" does not hold here: no project quotas`},
		{"inodes that do not hold", without, 0, 100, disk.Size{}, `option "inodes": "100" does not hold here: no project quotas`},
	} {
		got, err := tt.limits.of(volume.Options{Size: tt.size, Inodes: tt.inodes})
		text := ""
		if err != nil {
			text = err.Error()
		}
		if got != tt.want || text != tt.refused {
			t.Errorf("%s: got %+v, %q; want %+v, %q", tt.name, got, text, tt.want, tt.refused)
		}
	}
	for _, l := range []Limits{{}, set, {Unsupported: off}} {
		if text := l.Ignored(); text != "" {
			t.Errorf("%+v: %q", l, text)
		}
	}
	if text := without.Ignored(); !strings.HasPrefix(text, "WORKSPACE_SIZE") || !strings.HasSuffix(text, "have no effect: no project quotas") {
		t.Errorf("ignored: %q", text)
	}
}
