package relay

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestBinary(t *testing.T) {
	self := platform{runtime.GOOS, runtime.GOARCH}
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(executable), "repos-linux-"+other)
	try := func(engine, self platform) string {
		f, err := binary(engine, self)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		return f.Name()
	}
	for _, tt := range []struct{ name, got, want string }{
		{"windows", try(platform{"windows", "amd64"}, self), "the engine runs on windows/amd64, and the plugin only on linux"},
		{"a path", try(platform{"linux", "../../../../../bin/sh"}, self), `architecture "../../../../../bin/sh", which this program does not know`},
		{"none", try(platform{"linux", other}, platform{"darwin", other}), "put the program for linux/" + other + " at " + beside},
		{"no ELF", func() string {
			if err := os.WriteFile(beside, []byte("#!/bin/sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			return try(platform{"linux", other}, self)
		}(), "is not an ELF binary"},
		{"of another architecture", func() string {
			data, err := os.ReadFile(executable)
			if err == nil {
				err = os.WriteFile(beside, data, 0o755)
			}
			if err != nil {
				t.Fatal(err)
			}
			return try(platform{"linux", other}, self)
		}(), "and the engine is for " + other},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	os.Remove(beside)
	if f, err := binary(self, self); err == nil { // the test may be linked dynamically
		defer f.Close()
		if f.Name() != running {
			t.Errorf("got %s", f.Name())
		}
	} else if !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Error(err)
	}
}

// TestStatic checks that a binary with an interpreter is refused.
func TestStatic(t *testing.T) {
	f, err := os.Open("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := elf.NewFile(f); err != nil || b.Section(".interp") == nil {
		t.Fatalf("/bin/sh has no interpreter: %v", err)
	}
	if err := static(f, platform{"linux", runtime.GOARCH}); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("got %v", err)
	}
}

func TestImage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "binary")
	content := bytes.Repeat([]byte("code"), 1<<16)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	read := func(compress bool) []byte {
		r, err := image(f, compress)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	plain, again := read(false), read(false)
	if !bytes.Equal(plain, again) {
		t.Error("two images of one binary differ")
	}
	squeezed := read(true)
	g, err := gzip.NewReader(bytes.NewReader(squeezed))
	if err != nil {
		t.Fatal(err)
	}
	if unpacked, err := io.ReadAll(g); err != nil || !bytes.Equal(unpacked, plain) || len(squeezed) >= len(plain)/10 {
		t.Errorf("compressed: %d bytes, %v", len(squeezed), err)
	}
	var names []string
	archive := tar.NewReader(bytes.NewReader(plain))
	for {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if h.Name != program {
			continue
		}
		if data, err := io.ReadAll(archive); err != nil || !bytes.Equal(data, content) || h.Mode != 0o755 || h.Uid != 0 {
			t.Errorf("the binary: mode %o, uid %d, %v", h.Mode, h.Uid, err)
		}
	}
	if got := strings.Join(names, " "); got != "run/ run/helmdeck/ "+program {
		t.Errorf("got files %s", got)
	}
	// An engine that refuses the image stops reading.
	r, err := image(f, false)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}
