package giterror

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/helmdeck/repos/internal/disk"
)

// Network returns the Kind of an error of net/http or of a connection, and KindOther for an
// unknown one.
func Network(err error) Kind {
	_, isDNS := errors.AsType[*net.DNSError](err)
	_, isVerify := errors.AsType[x509.UnknownAuthorityError](err)
	_, isName := errors.AsType[x509.HostnameError](err)
	_, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	_, isSilent := errors.AsType[SilentError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return KindCanceled
	case isDNS:
		return KindHost
	case isVerify || isName || isInvalid:
		return KindTLS
	case isSilent, errors.Is(err, context.DeadlineExceeded), isNet && netErr.Timeout():
		return KindTimeout
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return KindRefused
	case disk.IsFull(err):
		return KindNoSpace
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return KindServer
	}
	return KindOther
}
