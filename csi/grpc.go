package csi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/origin"
)

// gRPC over the HTTP/2 of net/http, as far as unary calls need it: one message in, one
// message or an error out. docs/design.md says why it is not a library.

const (
	// maxMessage bounds a request. The largest legitimate one has the attributes of a volume
	// and a secret, which Kubernetes limits to a MiB each.
	maxMessage = 4 << 20
	// maxText bounds the text of an error, which is in a header.
	maxText = 4 << 10
	// contentType is what clients send; they may add +proto.
	contentType = "application/grpc"
)

// method answers a call: a message for a message.
type method func(ctx context.Context, request []byte) (message, error)

// serve returns a handler of gRPC for methods by their paths.
func serve(log *logrus.Logger, methods map[string]method) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), contentType) || r.ProtoMajor != 2 {
			http.Error(w, "this socket is for gRPC", http.StatusUnsupportedMediaType)
			return
		}
		ctx := origin.Begin(r.Context(), origin.Actor{Kind: origin.Engine})
		reply, err := answer(ctx, log, methods, r)
		header := w.Header()
		header.Set("Content-Type", contentType)
		// A trailer with this prefix need not be announced.
		header.Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(int(CodeOf(err))))
		if err != nil {
			header.Set(http.TrailerPrefix+"Grpc-Message", encodeText(origin.Clip(err.Error(), maxText)))
			w.WriteHeader(http.StatusOK)
			return
		}
		if _, err := w.Write(frame(reply)); err != nil {
			log.WithContext(ctx).WithError(err).Debugf("answer %s", r.URL.Path)
		}
	})
}

// answer calls the method that a request names. A panic is an error of this call alone.
func answer(ctx context.Context, log *logrus.Logger, methods map[string]method, r *http.Request) (reply message, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.WithContext(ctx).WithField("stack", string(debug.Stack())).Errorf("panic in %s: %v", r.URL.Path, p)
			reply, err = nil, failf(Internal, "internal error: the driver's log says more")
		}
	}()
	f, ok := methods[r.URL.Path]
	if !ok {
		return nil, failf(Unimplemented, "the driver has no method %.200q", r.URL.Path)
	}
	if text := r.Header.Get("Grpc-Timeout"); text != "" {
		timeout, err := parseTimeout(text)
		if err != nil {
			return nil, err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	request, err := readMessage(r.Body)
	if err != nil {
		return nil, err
	}
	reply, err = f(ctx, request)
	// The cause says so if the driver is stopping: kubelet calls again.
	if why := context.Cause(r.Context()); err != nil && why != nil && why != context.Canceled {
		return nil, failf(Unavailable, "%w", why)
	}
	return reply, err
}

// readMessage reads the one message of a unary call: a byte that says whether it is
// compressed, its length in four bytes, and the message.
func readMessage(body io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(body, head[:]); err != nil {
		return nil, failf(Internal, "read the request: %w", err)
	}
	if head[0] != 0 {
		return nil, failf(Unimplemented, "the request is compressed")
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxMessage {
		return nil, failf(ResourceExhausted, "the request has %d bytes, at most %d are allowed", size, maxMessage)
	}
	// Not a buffer of size bytes, which the client may not send.
	data, err := io.ReadAll(io.LimitReader(body, int64(size)))
	if err == nil && len(data) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, failf(Internal, "read the request: %w", err)
	}
	return data, nil
}

// frame puts the head of readMessage before a message.
func frame(m message) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
}

// parseTimeout reads a Grpc-Timeout: at most eight digits and a unit.
func parseTimeout(text string) (time.Duration, error) {
	units := map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond}
	const maxDigits = 8
	if n := len(text) - 1; n > 0 && n <= maxDigits {
		unit, ok := units[text[n]]
		value, err := strconv.ParseUint(text[:n], 10, 32)
		if ok && err == nil {
			return time.Duration(min(value, uint64(math.MaxInt64/unit))) * unit, nil // of years
		}
	}
	return 0, failf(InvalidArgument, "the timeout %.20q is malformed", text)
}

// encodeText writes a Grpc-Message: what is not printable ASCII, and %, as % and two digits.
func encodeText(text string) string {
	var b bytes.Buffer
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
