package giterror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/work"
)

// Error is the failure of a git command.
type Error struct {
	Op     string // the operation, such as "ask the remote for its refs"
	URL    string // of the remote, if one was involved; without secrets
	Kind   Kind
	Stderr string // the end of git's stderr
	Detail string // shown instead of git's message, if set
	Remedy string // what the user can do; empty means the remedy of the kind
	Err    error  // exit status, or the context's cause

	words string // the line of Stderr that determined the kind
	// saysFull is set if git says that the disk is full, and the disk does not show it.
	saysFull bool
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.URL != "" {
		fmt.Fprintf(&b, " %s", e.URL)
	}
	fmt.Fprintf(&b, ": %s", e.Kind)
	words := cmp.Or(Printable(e.words), lastWords(e.Stderr))
	_, exited := errors.AsType[exitError](e.Err)
	switch {
	case e.Detail != "":
		fmt.Fprintf(&b, " (%s)", Printable(e.Detail))
	case words != "":
		fmt.Fprintf(&b, " (git: %s)", words)
	case e.Err != nil && (e.Kind == KindOther || !exited):
		fmt.Fprintf(&b, " (%v)", e.Err)
	}
	if r := e.Advice(); r != "" {
		fmt.Fprintf(&b, ": %s", r)
	}
	return b.String()
}

// Advice returns what the user can do, or "". Error ends with it.
func (e *Error) Advice() string { return cmp.Or(e.Remedy, remedy[e.Kind]) }

func (e *Error) Unwrap() error { return e.Err }

// exitError is the error of a process that ended with a status: *exec.ExitError, without the
// package that executes.
type exitError interface {
	error
	Sys() any
}

// Signal returns the signal that ended git, 0 if none did.
func (e *Error) Signal() syscall.Signal {
	if exit, ok := errors.AsType[exitError](e.Err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return status.Signal()
		}
	}
	return 0
}

// New classifies a failure. filled is set if the command may have filled its
// filesystem.
func New(op, url, stderr string, err error, filled bool) *Error {
	e := &Error{Op: op, URL: url, Kind: KindOther, Stderr: stderr, Err: err}
	limit, limited := errors.AsType[*work.LimitError](err)
	silent, isSilent := errors.AsType[SilentError](err)
	switch {
	case limited:
		e.Kind, e.Detail = KindLimit, limit.Error()
	case isSilent:
		e.Kind, e.Detail = KindTimeout, silent.Error()
	case errors.Is(err, context.DeadlineExceeded):
		e.Kind = KindTimeout
	case errors.Is(err, context.Canceled):
		e.Kind = KindCanceled
	case NoSpace(err):
		e.Kind = KindNoSpace
	default:
		if e.Kind, e.words = classify(stderr, url, true); e.Kind == KindNoSpace && !filled {
			e.saysFull = true
			e.Kind, e.words = classify(stderr, url, false)
		}
	}
	return e
}

// RefNotFound returns the error for a ref that the remote does not have.
func RefNotFound(url, ref string) error {
	return &Error{Op: fmt.Sprintf("find ref %q at", ref), URL: url, Kind: KindRefNotFound}
}

// NoCommit returns the error for a remote's ref that does not point to a commit.
func NoCommit(url, ref string) error {
	return &Error{Op: fmt.Sprintf("check out ref %q of", ref), URL: url, Kind: KindNoCommit}
}

// Damaged returns the error for a store that can't be read.
func Damaged(store string, err error) error {
	return &Error{Op: "read the store", Kind: KindCorrupt, Detail: fmt.Sprintf("%s: %v", store, err), Err: err}
}

// NoAnswer returns the error for a question that got no answer in time.
func NoAnswer(url string, err error) error {
	return &Error{Op: "ask for the refs of", URL: url, Kind: KindTimeout, Detail: err.Error(), Err: err}
}

// NoDefault returns the error for a remote with branches whose HEAD has no commit. head is the
// branch that it points to; it may be empty.
func NoDefault(url, head string) error {
	e := &Error{
		Op: "find the default branch of", URL: url, Kind: KindRefNotFound,
		Detail: "its HEAD does not point to a commit",
		Remedy: "name a branch that it has in the option ref, or change its default branch",
	}
	if head != "" {
		e.Detail = fmt.Sprintf("its HEAD points to %s, which does not exist", head)
	}
	return e
}

// Empty returns the error for a ref of a remote without branches.
func Empty(url, ref string) error {
	return &Error{
		Op: fmt.Sprintf("find ref %q at", ref), URL: url, Kind: KindRefNotFound,
		Detail: "the repository is empty: it has no branches yet",
		Remedy: "push a first commit to it, or leave the option ref out: then the volume begins without files, at the default branch, and the first commit can be pushed from there",
	}
}

// NoSpace reports whether err says that the disk is full: whoever wrote may try again after an eviction.
func NoSpace(err error) bool {
	return KindOf(err) == KindNoSpace || disk.IsFull(err)
}

// SaysNoSpace reports whether err has git's words for a full disk, but not the evidence:
// space was freed since, or a remote sent the words. It is false if another message of
// git names another cause, such as a refused login.
func SaysNoSpace(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.saysFull && (e.Kind == KindOther || e.Kind == KindCorrupt || e.Kind == KindServer)
}

// SilentError is the error of a child, or a request, that sent nothing for that long.
type SilentError time.Duration

func (s SilentError) Error() string { return fmt.Sprintf("nothing came for %v", time.Duration(s)) }
