package testgit

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Watched is a Script that holds a pipe open until all of its processes have ended.
type Watched struct {
	Program      string
	t            testing.TB
	began, alive *os.File
}

// Watch is Script with pipes in dir. The script's user must be able to enter dir.
func Watch(t testing.TB, dir, text string) Watched {
	t.Helper()
	fifo := func(name string, flag int) *os.File {
		path := filepath.Join(dir, name)
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	// Both opens must not wait for the other side of the FIFO: hence O_RDWR and O_NONBLOCK.
	began := fifo("began", os.O_RDWR)
	alive := fifo("alive", os.O_RDONLY|syscall.O_NONBLOCK)
	program := Script(t, fmt.Sprintf("exec 9> %s\necho x > %s\n%s\n", alive.Name(), began.Name(), text))
	return Watched{program, t, began, alive}
}

// Await waits until the script has started.
func (w Watched) Await() {
	w.t.Helper()
	if _, err := w.began.Read(make([]byte, 2)); err != nil {
		w.t.Fatal(err)
	}
}

// WantGone waits until all of the script's processes have ended. A process that does not end hangs
// the test.
func (w Watched) WantGone() {
	w.t.Helper()
	if _, err := w.alive.Read(make([]byte, 1)); err != io.EOF {
		w.t.Errorf("wait for the processes: %v, want EOF", err)
	}
}
