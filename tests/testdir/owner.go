package testdir

import (
	"syscall"
	"testing"
)

// Owner returns the owner of a file, or of a link itself.
func Owner(t testing.TB, path string) (uid, gid int) {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return int(st.Uid), int(st.Gid)
}
