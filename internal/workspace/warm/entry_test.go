package warm

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// TestLeaveOut uses trees of several layers with whiteouts and opaque directories.
func TestLeaveOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	top, mid, base := filepath.Join(w.root, "top"), filepath.Join(w.root, "mid"), filepath.Join(w.root, "base")
	w.write(filepath.Join(base, "vendor/x"), "x")
	w.write(filepath.Join(base, "gone/x"), "x")
	w.write(filepath.Join(base, "web/dist/x"), "x")
	w.write(filepath.Join(base, "app/dist/x"), "x")
	w.write(filepath.Join(base, "file"), "x")
	w.write(filepath.Join(base, "back/x"), "x")
	w.mkdir(mid, filepath.Join(mid, "web"), filepath.Join(mid, "app"), top)
	whiteouts := []string{filepath.Join(mid, "gone"), filepath.Join(mid, "app/dist"), filepath.Join(mid, "back")}
	for _, path := range whiteouts {
		if err := unix.Mknod(path, unix.S_IFCHR, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Setxattr(filepath.Join(mid, "web"), upfile.OpaqueAttr, []byte("y"), 0); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "vendor", "out": "/etc", "web/link": ".."} {
		if err := os.Symlink(to, filepath.Join(mid, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.write(filepath.Join(top, "back"), "a file again")
	layers := []string{top, mid, base}
	for rel, want := range map[string]string{
		"node_modules":  "",
		"new/a/b":       "",
		"vendor":        "the commit has it",
		"vendor/x":      "the commit has it",
		"vendor/y":      "",
		"gone":          "",
		"gone/x":        "",
		"web/dist":      "",
		"app/dist":      "",
		"app/dist/y":    "",
		"file":          "the commit has it",
		"file/x":        "file is not a directory in the commit",
		"link":          "the commit has it",
		"link/nm":       "link is not a directory in the commit",
		"out/nm":        "out is not a directory in the commit",
		"web/link/nm":   "web/link is not a directory in the commit",
		"back":          "the commit has it",
		"back/x":        "back is not a directory in the commit",
		"web/dist/deep": "",
	} {
		if got, err := leaveOut(layers, rel); err != nil || got != want {
			t.Errorf("%q: got %q, %v; want %q", rel, got, err, want)
		}
	}
	// What a workspace writes at a path that is left out stays in the upper.
	want := w.want("vendor", "nm")
	want.Tree = layers
	s := w.open(want)
	s.write("vendor/x", "changed")
	s.write("nm/x", "x")
	s.end()
	if s.Paths[0].LeftOut == "" || s.Paths[1].LeftOut != "" {
		t.Errorf("paths %+v", s.Paths)
	}
	if got := list(t, s.Upper); len(got) != 1 || got[0] != "vendor/x=changed" {
		t.Errorf("the upper has %q", got)
	}
	if states, err := w.m.States(t.Context(), want); err != nil || !states[0].Never || states[1].Never {
		t.Errorf("states %+v, %v", states, err)
	}
	// The path is warm again when the commit does not have it any more.
	want.Tree = []string{w.tree}
	w.run(want, func(s *session) { s.has("vendor"); s.has("nm", "x=x"); s.write("vendor/y", "y") })
	w.sees(want, "vendor", "y=y")
	want.Tree = layers
	w.sees(want, "vendor", "x=x")
}
