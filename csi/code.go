package csi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/verbs"
)

// codeNames are the codes that the driver answers, as metrics name them. After any but Canceled, DeadlineExceeded,
// ResourceExhausted, Aborted and Unavailable kubelet takes it for certain that nothing was published, and does not send
// NodeUnpublishVolume.
var codeNames = map[codes.Code]string{
	codes.OK: "ok", codes.Canceled: "canceled", codes.InvalidArgument: "invalid_argument", codes.DeadlineExceeded: "deadline_exceeded",
	codes.NotFound: "not_found", codes.AlreadyExists: "already_exists", codes.PermissionDenied: "permission_denied",
	codes.ResourceExhausted: "resource_exhausted", codes.FailedPrecondition: "failed_precondition", codes.Aborted: "aborted",
	codes.Unimplemented: "unimplemented", codes.Internal: "internal", codes.Unavailable: "unavailable",
}

// callError adds a code to an error. Its text does not mention the code.
type callError struct {
	code codes.Code
	error
}

func (e callError) Unwrap() error { return e.error }

func failf(code codes.Code, format string, args ...any) error {
	return callError{code, fmt.Errorf(format, args...)}
}

// CodeOf returns the code of an error, OK for nil.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	if e, ok := errors.AsType[callError](err); ok {
		return e.code
	}
	if giterror.NoSpace(err) || disk.NoRoom(err) {
		return codes.ResourceExhausted
	}
	if code, ok := kindCodes[verbs.KindOf(err)]; ok {
		return code
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return codes.DeadlineExceeded
	}
	return codes.Internal
}

// kindCodes are those of the kinds of errors of verbs.
var kindCodes = map[verbs.Kind]codes.Code{
	verbs.Invalid:     codes.InvalidArgument,
	verbs.NotFound:    codes.NotFound,
	verbs.Exists:      codes.AlreadyExists,
	verbs.InUse:       codes.Aborted,
	verbs.Exhausted:   codes.ResourceExhausted,
	verbs.Denied:      codes.PermissionDenied,
	verbs.Unavailable: codes.Unavailable,
	verbs.Unfinished:  codes.Aborted,
	verbs.Held:        codes.Aborted,
	verbs.Unreachable: codes.Unavailable,
	verbs.Canceled:    codes.Canceled,
	verbs.Internal:    codes.Internal,
}

// isFinal reports whether kubelet takes an error for proof that nothing is published.
func isFinal(err error) bool {
	switch CodeOf(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Unavailable:
		return false
	}
	return true
}
