package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWatchCountsDirectoriesThatAreRead(t *testing.T) {
	d, err := newDisk(t.Context(), workDir(t), 1000, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(d.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(d.dir, "a", "file")
	w, err := newWatch(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for _, test := range []struct {
		name string
		do   func() error
		want int
	}{
		{"nothing", func() error { return nil }, 0},
		{"files and stat", func() error {
			if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
				return err
			}
			if _, err := os.ReadFile(file); err != nil {
				return err
			}
			_, err := os.Stat(filepath.Join(d.dir, "b"))
			return err
		}, 0},
		{"two directories", func() error {
			for _, name := range []string{"a", "b"} {
				if _, err := os.ReadDir(filepath.Join(d.dir, name)); err != nil {
					return err
				}
			}
			return nil
		}, 2},
	} {
		if err := test.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := w.read(); err != nil || got != test.want {
			t.Errorf("%s: %d directories were read, %v, want %d", test.name, got, err, test.want)
		}
	}
}
