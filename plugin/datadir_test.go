package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClaim(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files []string
		want  string // part of the error
	}{
		{"empty", nil, ""},
		{"a new filesystem", []string{"lost+found/"}, ""},
		{"a start that died", []string{".tmp-123"}, ""},
		{"like ours", []string{"clones/", "meta.db"}, `"clones"`},
		{"somebody's", []string{"photos/"}, `"photos"`},
		{"somebody's trash", []string{"trash/"}, `"trash"`},
		{"marked", []string{markerFile, "photos/"}, ""},
		{"a directory for a mark", []string{markerFile + "/", "clones/"}, "is not a file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range tt.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if strings.HasSuffix(name, "/") {
					if err := os.Mkdir(path, 0o755); err != nil {
						t.Fatal(err)
					}
				} else if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := claim(dir)
			if tt.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				if info, err := os.Stat(filepath.Join(dir, markerFile)); err != nil || !info.Mode().IsRegular() {
					t.Errorf("no marker file: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v, want %q with the directory", err, tt.want)
			}
			if got, err := os.ReadDir(dir); err != nil || len(got) != len(tt.files) {
				t.Errorf("the directory has %v now, %v; want it unchanged", got, err)
			}
		})
	}
}

// The flag may spell the data directory in any way.
//
// Not parallel: it changes the working directory.
func TestDataDirectoryAsSpelled(t *testing.T) {
	s := remote(t)
	dir := scratch(t)
	t.Chdir(dir)
	for _, spelled := range []string{"./absolute/../relative/data/", filepath.Join(dir, "absolute") + "//data/"} {
		p := startWith(t, dir, func(at *places) { at.data = spelled })
		p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
		clean(t, p.mount("v", "1"))
		p.unmount("v", "1")
		p.stop()
	}
}
