package remotes

import (
	"encoding/base64"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/tests/testdisk"
)

// noise returns a random text of about size bytes, which does not compress well.
func noise(size int) string {
	data := make([]byte, size*3/4)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	return base64.StdEncoding.EncodeToString(data)
}

// smallDisk returns a directory on a new filesystem of size bytes. The end of the test unmounts it
// with the scratch directory that it is in, which frees its loop device.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	disk := filepath.Join(scratch(t), "disk")
	if err := testdisk.Ext4(disk, size, "-i", "4096"); err != nil {
		t.Fatal(err)
	}
	return disk
}
