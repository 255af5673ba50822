package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubeletLink: a link in kubelet's path that leads nowhere is named, with where it leads; one that
// leads to a directory is not in the way.
func TestKubeletLink(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ link, kubelet string }{
		{"kubelet", "kubelet"}, {"kubelet/pods", "kubelet"}, {"kubelet/plugins_registry", "kubelet"}, {"lib", "lib/kubelet"},
	} {
		top := t.TempDir()
		link, nowhere := filepath.Join(top, tt.link), filepath.Join(top, "disk")
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(nowhere, link); err != nil {
			t.Fatal(err)
		}
		s := csiSettings{kubelet: filepath.Join(top, tt.kubelet)}
		err := s.checkPropagation(top)
		for _, part := range []string{`"` + link + `"`, `"` + nowhere + `"`, "KUBELET_DIR", "the same path"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %s in it", tt.link, err, part)
			}
		}
		if err := os.MkdirAll(filepath.Join(nowhere, "kubelet"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := s.checkPropagation(top); err != nil && strings.Contains(err.Error(), "is a link") {
			t.Errorf("%s: %v", tt.link, err)
		}
	}
	if err := (csiSettings{kubelet: filepath.Join(t.TempDir(), "none")}).checkPropagation("/"); err != nil && strings.Contains(err.Error(), "is a link") {
		t.Errorf("no directory: %v", err)
	}
}
