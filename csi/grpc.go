package csi

import (
	"context"
	"net/http"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/helmdeck/repos/internal/origin"
)

const (
	// maxMessage bounds a request, in bytes. The largest legitimate one has a private key, and texts of a few KiB. A
	// connection may have 250 requests at a time.
	maxMessage = 256 << 10
	// frameHead is what gRPC adds to a message: a byte that says whether it is compressed, and its length.
	frameHead = 5
	// maxText bounds the text of an error, which is in a header.
	maxText = 4 << 10
)

// requestKey is the key of the context of an HTTP request in that of its call.
type requestKey struct{}

// serve returns a handler for the services that register adds to a server. The connections are those of net/http, with
// its bounds and those of package intake: grpc-go's own have none for a slow client, nor for frames without a request.
func (d *Driver) serve(register func(grpc.ServiceRegistrar)) http.Handler {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.UnaryInterceptor(d.intercept))
	register(server)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// grpc-go reads on until the body ends, also if nobody asks for more.
		r.Body = http.MaxBytesReader(w, r.Body, frameHead+maxMessage)
		// When its context has ended, grpc-go sends no answer, so intercept watches the request's instead: kubelet takes a
		// call without an answer for a final error.
		server.ServeHTTP(w, r.WithContext(context.WithValue(context.WithoutCancel(r.Context()), requestKey{}, r.Context())))
	})
}

// intercept makes a call, and gives its error a code. A panic is an error of this call alone, which is not final, because
// nobody knows what it has left.
func (d *Driver) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, call grpc.UnaryHandler) (reply any, err error) {
	arrived := ctx.Value(requestKey{}).(context.Context)
	deadline, ok := ctx.Deadline()
	if ctx = origin.Begin(arrived, origin.Actor{Kind: origin.Kubelet}); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			d.config.Log.WithContext(ctx).WithField("stack", string(debug.Stack())).
				Errorf("panic in %s: %v", info.FullMethod, p)
			err = failf(codes.Unavailable, "internal error: the driver's log says more")
		}
		// The cause says so if the driver is stopping: kubelet calls again.
		if why := context.Cause(arrived); err != nil && why != nil && why != context.Canceled {
			err = failf(codes.Unavailable, "%w", why)
		}
		if _, ok := status.FromError(err); !ok { // it is not that of an unimplemented method
			err = status.Error(CodeOf(err), origin.Clip(forPods(err.Error()), maxText))
		}
		if op, ok := operations[info.FullMethod]; ok && d.config.Observe != nil {
			d.config.Observe(op, codeNames[status.Code(err)])
		}
	}()
	return call(ctx, request)
}
