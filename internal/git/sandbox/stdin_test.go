package sandbox

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// more is more than a socket holds.
var more = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)

func TestStdin(t *testing.T) {
	child, parent, err := Stdin()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = child, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child.Close()
	if _, err := parent.Write(more); err != nil {
		t.Error(err)
	}
	if err := errors.Join(parent.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(out.Bytes(), more) {
		t.Errorf("the child got %d bytes, want those %d that were written", out.Len(), len(more))
	}
}

// A child that ends in the middle is EPIPE, whether it has read nothing or left something unread.
func TestStdinOfEnded(t *testing.T) {
	for _, args := range [][]string{{"true"}, {"head", "-c", "100"}} {
		child, parent, err := Stdin()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdin = child
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		child.Close()
		for err == nil {
			_, err = parent.Write(more)
		}
		if !errors.Is(err, syscall.EPIPE) {
			t.Errorf("%q: %v, want EPIPE", args, err)
		}
		if err := errors.Join(parent.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	}
}

func TestStdinCloseEndsWrite(t *testing.T) {
	child, parent, err := Stdin()
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close() // nobody reads it
	wrote := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = parent.Write(more)
		}
		wrote <- err
	}()
	if err := parent.Close(); err != nil {
		t.Error(err)
	}
	if err := <-wrote; !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, want that it is closed", err)
	}
}
