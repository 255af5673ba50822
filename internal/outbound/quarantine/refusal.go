package quarantine

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/giterror"
)

// Why says which kind of reason a Refusal has.
type Why int

const (
	Invalid  Why = iota // the request is wrong
	Missing             // there is no such branch
	Conflict            // the remote has something else
	Denied              // the remote does not want it
	TooLarge            // a limit is exceeded
	Unusable            // the repository of the workspace can't be read, or its objects are damaged
	Changed             // the repository was changed while it was read: another try may succeed
)

// Refusal says why commits are not taken or not sent. Its text may be shown: it has no control
// characters of others, and no secrets.
type Refusal struct {
	Why  Why
	Text string

	always bool // TooLarge in a turn of lists too
}

func (r *Refusal) Error() string { return r.Text }

func refuse(why Why, format string, args ...any) *Refusal {
	return &Refusal{Why: why, Text: fmt.Sprintf(format, args...)}
}

// ofOurs reports whether an error of a local git says nothing about the objects: a limit, a
// full disk, or the end of a context.
func ofOurs(err error) bool {
	switch giterror.KindOf(err) {
	case giterror.KindLimit, giterror.KindNoSpace, giterror.KindTimeout, giterror.KindCanceled:
		return true
	}
	return false
}

// isDir reports whether an error means that a file is a directory.
func isDir(err error) bool { return errors.Is(err, unix.EISDIR) }

// unreadable explains the error of a file that every repository has.
func unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || isDir(err) {
		return refuse(Unusable, "the workspace's repository has no file %q: is it damaged?", name)
	}
	return err
}

// printable is giterror.Printable, in quotes.
func printable(text string) string { return fmt.Sprintf("%q", giterror.Printable(text)) }

// giterrorOf returns the *giterror.Error in err.
func giterrorOf(err error) (*giterror.Error, bool) { return errors.AsType[*giterror.Error](err) }
