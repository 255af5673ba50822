package relay

import (
	"archive/tar"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// platform is an operating system and an architecture, in Go's names, which are the engine's.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// running is the binary of this process.
const running = "/proc/self/exe"

// binary opens a binary for an engine's platform: the running one if it is for that, and otherwise the
// one beside it whose name ends with the platform.
func binary(engine, self platform) (*os.File, error) {
	if engine.os != "linux" {
		return nil, fmt.Errorf("the engine runs on %s, and the plugin only on linux", engine)
	}
	if _, ok := machines[engine.arch]; !ok { // it becomes a part of a path
		return nil, fmt.Errorf("the engine runs on the architecture %.40q, which this program does not know", engine.arch)
	}
	path := running
	if engine != self {
		executable, err := os.Executable()
		if err == nil {
			executable, err = filepath.EvalSymlinks(executable)
		}
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		// Docker would take a name that begins with docker- for that of another plugin.
		path = filepath.Join(filepath.Dir(executable), "repos-linux-"+engine.arch)
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the engine runs on %s, and this program is for %s: put the program for %s at %s", engine, self, engine, path)
	case err != nil:
		return nil, err
	}
	if err := static(f, engine); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s can't run as a relay in the engine: %w", path, err)
	}
	return f, nil
}

// machines are the architectures that the plugin and docker have in common.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "386": elf.EM_386,
	"ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "riscv64": elf.EM_RISCV, "loong64": elf.EM_LOONGARCH,
}

// static checks that a binary is for a platform and needs no other file, because the image has none.
func static(f io.ReaderAt, p platform) error {
	b, err := elf.NewFile(f)
	if err != nil {
		return fmt.Errorf("it is not an ELF binary: %w", err)
	}
	if b.Machine != machines[p.arch] {
		return fmt.Errorf("it is for %v, and the engine is for %s", b.Machine, p.arch)
	}
	for _, part := range b.Progs {
		if part.Type == elf.PT_INTERP {
			return errors.New("it needs shared libraries: build it with CGO_ENABLED=0")
		}
	}
	return nil
}

// image returns the tar file of an image with the binary. It is the same for the same binary, so that an
// engine stores it once however many relays it has. The caller closes it.
func image(binary *os.File, compress bool) (io.ReadCloser, error) {
	info, err := binary.Stat()
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		var out io.Writer = w
		var squeezed *gzip.Writer
		if compress {
			squeezed, _ = gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is valid
			out = squeezed
		}
		err := write(out, binary, info.Size())
		if err == nil && squeezed != nil {
			err = squeezed.Close()
		}
		w.CloseWithError(err)
	}()
	return r, nil
}

// write writes the files of the image: the binary, and the mount point of the sockets.
func write(w io.Writer, binary io.ReaderAt, size int64) error {
	t := tar.NewWriter(w)
	old := time.Unix(0, 0)
	dir := ""
	for name := range strings.SplitSeq(strings.TrimPrefix(socketDir, "/"), "/") {
		dir += name + "/"
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: old}); err != nil {
			return err
		}
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: program, Mode: 0o755, Size: size, ModTime: old}); err != nil {
		return err
	}
	if _, err := io.Copy(t, io.NewSectionReader(binary, 0, size)); err != nil {
		return err
	}
	return t.Close()
}
