package checkpoints

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc64"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// versioned is a file whose content says which version it is, and whether it is whole.
type versioned struct {
	path        string
	begun, done atomic.Uint64 // the newest version whose write has begun, and is done
}

var table = crc64.MakeTable(crc64.ISO)

// content returns a version of a file: number, sum, and bytes that differ in each.
func content(version uint64, size int) []byte {
	data := make([]byte, size)
	for i := 16; i+8 <= size; i += 8 {
		binary.LittleEndian.PutUint64(data[i:], version*2654435761+uint64(i))
	}
	binary.LittleEndian.PutUint64(data, version)
	binary.LittleEndian.PutUint64(data[8:], crc64.Checksum(data[16:], table))
	return data
}

// versionOf returns the version in a file. ok is false if the file is not whole.
func versionOf(data []byte) (version uint64, ok bool) {
	if len(data) < 16 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(data), binary.LittleEndian.Uint64(data[8:]) == crc64.Checksum(data[16:], table)
}

// TestWhole: in a checkpoint without a pause each file is as of a moment between its beginning and its end: one that is
// replaced by rename always, and one that is written in place by one write if it is not counted as torn.
func TestWhole(t *testing.T) {
	onEach(t, func(w *world) {
		t := w.T
		v := w.start("mode", "private")
		var files []*versioned
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for n := range 12 {
			f := &versioned{path: fmt.Sprintf("renamed%d", n)}
			size := 100 << n
			write := func(data []byte) error {
				temporary := filepath.Join(v.dir, f.path+"~")
				return errors.Join(os.WriteFile(temporary, data, 0o644), os.Rename(temporary, filepath.Join(v.dir, f.path)))
			}
			if n%3 == 2 {
				f.path = fmt.Sprintf("in-place%d", n)
				file, err := os.Create(filepath.Join(v.dir, f.path))
				if err != nil {
					t.Fatal(err)
				}
				defer file.Close()
				write = func(data []byte) error { _, err := file.WriteAt(data, 0); return err }
			}
			if err := write(content(0, size)); err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			writers.Go(func() {
				for version := uint64(1); ; version++ {
					select {
					case <-stop:
						return
					default:
					}
					f.begun.Store(version)
					if err := write(content(version, size)); err != nil {
						t.Error(err)
						return
					}
					f.done.Store(version)
				}
			})
		}
		defer writers.Wait()
		defer close(stop)
		var torn int
		for round := range max(5, *rounds/5) {
			least := make([]uint64, len(files))
			for i, f := range files {
				least[i] = f.done.Load()
			}
			d := w.draft(v)
			made := w.keep(d)
			fork := w.start("from", made.ID)
			broken := 0
			for i, f := range files {
				most := f.begun.Load()
				data, err := os.ReadFile(filepath.Join(fork.dir, f.path))
				if err != nil {
					t.Fatal(err)
				}
				version, ok := versionOf(data)
				switch {
				case ok && least[i] <= version && version <= most:
				case !ok && filepath.Base(f.path)[0] == 'i':
					broken++
				default:
					t.Fatalf("round %d: %s has %d bytes of version %d, whole %v, want one of %d to %d", round, f.path, len(data), version, ok, least[i], most)
				}
			}
			if int64(broken) > d.Torn {
				t.Fatalf("round %d: %d files are not whole, and %d are reported as torn", round, broken, d.Torn)
			}
			torn += broken
			w.end(fork)
			w.remove(kept)
		}
		t.Logf("%d files were torn, all reported", torn)
	})
}
