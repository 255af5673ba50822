package csi

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/verbs"
)

// Code is a status code of gRPC.
type Code int

// The codes that the driver answers. After any but Canceled,
// DeadlineExceeded, ResourceExhausted, Aborted and Unavailable kubelet takes it for certain that nothing was published, and does not send
// NodeUnpublishVolume.
const (
	OK                 Code = 0
	Canceled           Code = 1
	InvalidArgument    Code = 3
	DeadlineExceeded   Code = 4
	NotFound           Code = 5
	AlreadyExists      Code = 6
	PermissionDenied   Code = 7
	ResourceExhausted  Code = 8
	FailedPrecondition Code = 9
	Aborted            Code = 10
	Unimplemented      Code = 12
	Internal           Code = 13
	Unavailable        Code = 14
)

// callError adds a code to an error. Its text does not mention the code.
type callError struct {
	code Code
	error
}

func (e callError) Unwrap() error { return e.error }

func failf(code Code, format string, args ...any) error {
	return callError{code, fmt.Errorf(format, args...)}
}

// CodeOf returns the code of an error, OK for nil.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[callError](err); ok {
		return e.code
	}
	if giterror.NoSpace(err) {
		return ResourceExhausted
	}
	if code, ok := codes[verbs.KindOf(err)]; ok {
		return code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return DeadlineExceeded
	}
	return Internal
}

// codes are those of the kinds of errors of verbs.
var codes = map[verbs.Kind]Code{
	verbs.Invalid:     InvalidArgument,
	verbs.NotFound:    NotFound,
	verbs.Exists:      AlreadyExists,
	verbs.InUse:       Aborted,
	verbs.Exhausted:   ResourceExhausted,
	verbs.Denied:      PermissionDenied,
	verbs.Unavailable: Unavailable,
	verbs.Unfinished:  Aborted,
	verbs.Held:        Aborted,
	verbs.Unreachable: Unavailable,
	verbs.Canceled:    Canceled,
	verbs.Internal:    Internal,
}

// isFinal reports whether kubelet takes an error for proof that nothing is published.
func isFinal(err error) bool {
	switch CodeOf(err) {
	case Canceled, DeadlineExceeded, ResourceExhausted, Aborted, Unavailable:
		return false
	}
	return true
}
