package remotes

import (
	"encoding/base64"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/tests/testdisk"
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
	disk := filepath.Join(scratch(t), "disk")
	if err := testdisk.Ext4(disk, size, "-i", "4096"); err != nil {
		t.Fatal(err)
	}
	return disk
}
