package testdir

import (
	"os"
	"path/filepath"
	"testing"
)

// Names lists a directory. A missing directory is empty.
func Names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Contents maps the path of each file of a work tree to its mode and content. It leaves out .git.
func Contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	m := make(map[string]string)
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return filepath.SkipDir
			}
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text, _ := os.Readlink(path)
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(data)
		}
		rel, err := filepath.Rel(dir, path)
		m[rel] = info.Mode().String() + " " + text
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return m
}
