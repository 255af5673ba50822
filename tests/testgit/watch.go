package testgit

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Watched is a Script whose processes have a pipe open as long as one of them lives.
type Watched struct {
	Program      string
	t            testing.TB
	began, alive *os.File
}

// Watch is Script for a user who may write to dir, where the pipes are.
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
	// Open for both, as a FIFO's open would wait for the other side.
	began := fifo("began", os.O_RDWR)
	alive := fifo("alive", os.O_RDONLY|syscall.O_NONBLOCK)
	program := Script(t, fmt.Sprintf("exec 9> %s\necho x > %s\n%s\n", alive.Name(), began.Name(), text))
	return Watched{program, t, began, alive}
}

// Await waits until the script runs.
func (w Watched) Await() {
	w.t.Helper()
	if _, err := w.began.Read(make([]byte, 2)); err != nil {
		w.t.Fatal(err)
	}
}

// WantGone waits until none of its processes is left. One that stays hangs the test.
func (w Watched) WantGone() {
	w.t.Helper()
	if _, err := w.alive.Read(make([]byte, 1)); err != io.EOF {
		w.t.Errorf("wait for the processes: %v, want EOF", err)
	}
}
