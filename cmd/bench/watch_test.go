package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

func TestWatchCountsDirectoriesThatAreRead(t *testing.T) {
	d, err := loopdisk.New(t.Context(), loopdisk.Ext4, workDir(t), 1000, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"a", "b"} {
		if err := os.MkdirAll(filepath.Join(d.Dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(d.Dir, "a", "file")
	w, err := loopdisk.NewWatch(d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
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
			_, err := os.Stat(filepath.Join(d.Dir, "b"))
			return err
		}, 0},
		{"two directories", func() error {
			for _, name := range []string{"a", "b"} {
				if _, err := os.ReadDir(filepath.Join(d.Dir, name)); err != nil {
					return err
				}
			}
			return nil
		}, 2},
	} {
		if err := test.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := w.Read(); err != nil || got != test.want {
			t.Errorf("%s: %d directories were read, %v, want %d", test.name, got, err, test.want)
		}
	}
}
