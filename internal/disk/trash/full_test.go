package trash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testdisk"
)

// TestFullDisk checks that everything can be deleted on a full disk without a reserve: Put
// deletes files until the trash has room for the entry.
func TestFullDisk(t *testing.T) {
	testdisk.OnEach(t, func(t *testing.T, disk string) {
		dir := filepath.Join(disk, "trash")
		tr := open(t, dir, nil)
		var victims []string
		for i := range 100 {
			victim := filepath.Join(disk, fmt.Sprint(i))
			must(t, os.MkdirAll(filepath.Join(victim, "a", "b"), 0o700))
			for j := range 5 {
				must(t, os.WriteFile(filepath.Join(victim, "a", fmt.Sprint(j)), make([]byte, 5000), 0o600))
			}
			victims = append(victims, victim)
		}
		must(t, testdisk.Fill(filepath.Join(disk, "fill")))
		for _, victim := range victims {
			put(t, tr, victim, strings.Repeat("n", maxName))
		}
		run(t, tr)
		idle(t, tr)
		wantNames(t, dir)
	})
}
