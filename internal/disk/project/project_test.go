package project

import (
	"errors"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/disk"
)

func TestParseRange(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Range{
		"1-1": {1, 1}, "1200000000-1200065535": {1200000000, 1200065535}, "1-4294967294": {1, 4294967294},
		"": {}, "7": {}, "0-7": {}, "8-7": {}, "1-4294967295": {}, "1-4294967296": {}, "-1": {}, "1-2-3": {}, "a-b": {},
	} {
		got, err := ParseRange(text)
		if got != want || (err == nil) != (want != Range{}) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

// TestUnsupported: every method says how quotas are switched on, or that the filesystem has none.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	q := &Quotas{off: &UnsupportedError{Filesystem: "ext4"}}
	errs := []error{q.Supported(), q.Move(t.Context(), t.TempDir(), 7), q.Limit(7, disk.Size{})}
	_, err := q.Use(7)
	errs = append(errs, err)
	_, err = q.Take(nil)
	errs = append(errs, err)
	_, err = q.Records()
	for _, err := range append(errs, err) {
		if unsupported := (*UnsupportedError)(nil); !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "tune2fs -O project,quota") {
			t.Errorf("%v does not say how", err)
		}
	}
	if err := (*Quotas)(nil).Supported(); err == nil || !strings.Contains(err.Error(), "ext4 or XFS") {
		t.Errorf("nil: %v", err)
	}
	if got := (&UnsupportedError{Filesystem: "xfs"}).Error(); !strings.Contains(got, "rootflags=prjquota") {
		t.Error(got)
	}
}

// TestOpen: a filesystem without project quotas is no error of Open.
func TestOpen(t *testing.T) {
	t.Parallel()
	q, err := Open("/proc", Range{1, 9})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Supported(); err == nil || q.Close() != nil {
		t.Errorf("procfs has project quotas")
	}
}
