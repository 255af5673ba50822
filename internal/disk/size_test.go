package disk

import "testing"

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
