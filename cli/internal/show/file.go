package show

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Stdout is standard output.
type Stdout interface {
	io.Writer
	IsTerminal() bool
}

// ToFile calls write with a file or, for "-", with standard output, unless that is a terminal. A
// regular file has its name only when it is complete. What is there and is not one, such as /dev/null
// or a pipe, is written to and not replaced.
func ToFile(stdout Stdout, name string, write func(io.Writer) error) (err error) {
	switch {
	case name == "":
		return errors.New("-o is empty: name a file, or - for standard output")
	case name == "-" && stdout.IsTerminal():
		return errors.New("standard output is a terminal: redirect it, or name a file with -o")
	case name == "-":
		return write(stdout)
	}
	switch at, err := os.Stat(name); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("write %q: %w", name, err)
	case err == nil && at.IsDir():
		return fmt.Errorf("%q is a directory: name a file in it", name)
	case err == nil && !at.Mode().IsRegular():
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write %q: %w", name, err)
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
