package disk

import (
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilled checks that the bytes of a command count even if it deleted them since.
func TestFilled(t *testing.T) {
	t.Parallel()
	dirs := []string{t.TempDir()}
	for _, tt := range []struct {
		wrote int64
		want  bool
	}{
		{0, false}, {1 << 20, false}, {1 << 60, true},
	} {
		if got := MayHaveFilled(dirs, tt.wrote); got != tt.want {
			t.Errorf("MayHaveFilled with %d bytes: %v, want %v", tt.wrote, got, tt.want)
		}
	}
}

// TestIsFull checks that a quota that is used up is not a full disk, but no room either.
func TestIsFull(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err          error
		full, noRoom bool
	}{
		{nil, false, false}, {unix.EIO, false, false}, {unix.ENOSPC, true, true}, {unix.EDQUOT, false, true},
		{&fs.PathError{Op: "write", Path: "x", Err: unix.ENOSPC}, true, true},
	} {
		if IsFull(tt.err) != tt.full || NoRoom(tt.err) != tt.noRoom {
			t.Errorf("%v: full %v, no room %v; want %v, %v", tt.err, IsFull(tt.err), NoRoom(tt.err), tt.full, tt.noRoom)
		}
	}
}

func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		size, limit Size
		want        int
	}{
		{Size{10, 10}, Size{}, 0},
		{Size{10, 10}, Size{Bytes: 20}, 50},
		{Size{10, 19}, Size{20, 20}, 95},
		{Size{996, 1}, Size{1000, 20}, 100},
		{Size{994, 1}, Size{1000, 20}, 99},
		{Size{30, 1}, Size{20, 20}, 150},
	} {
		if got := tt.size.Percent(tt.limit); got != tt.want {
			t.Errorf("%+v of %+v is %d%%, want %d%%", tt.size, tt.limit, got, tt.want)
		}
	}
}
