package remotes

import (
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// noise is a text of about so many bytes that does not compress well.
func noise(size int) string {
	data := make([]byte, size*3/4)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	return base64.StdEncoding.EncodeToString(data)
}

// smallDisk is a directory on a filesystem of its own with that many bytes. At the end it is detached with the scratch
// directory that it is in, and its loop device goes with it.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	dir := scratch(t)
	file, disk := filepath.Join(dir, "disk.img"), filepath.Join(dir, "disk")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, size), os.Mkdir(disk, 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", "-m", "0", "-i", "4096", file}, {"mount", "-o", "loop", file, disk}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	return disk
}
