package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"

	"github.com/docker/go-plugins-helpers/volume"
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/intake"
	"github.com/helmdeck/repos/internal/origin"
)

// maxBody bounds a request. The largest honest one is a Create with its options.
const maxBody = 1 << 20

// contentType is what the engine accepts (pkg/plugins/transport).
const contentType = "application/vnd.docker.plugins.v1.2+json"

// Handler returns the engine's volume protocol over HTTP. It uses the types of
// go-plugins-helpers, but not its handlers: here a request's context ends with its
// connection, bodies are bounded, and an empty body is an error, not a request for the
// volume "". The engine sends an empty body when it repeats a request after a lost
// connection.
func Handler(d *Driver) http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, f call) {
		mux.Handle("POST "+path, serve(d.config.Log, f))
	}
	type none struct{}
	handle("/Plugin.Activate", unread(func() any { return map[string][]string{"Implements": {"VolumeDriver"}} }))
	handle("/VolumeDriver.Capabilities", unread(func() any {
		return volume.CapabilitiesResponse{Capabilities: volume.Capability{Scope: "local"}}
	}))
	handle("/VolumeDriver.List", unread(func() any { return volume.ListResponse{Volumes: d.List()} }))
	handle("/VolumeDriver.Create", decoded(func(ctx context.Context, r *volume.CreateRequest) (any, error) {
		return none{}, d.Create(ctx, r.Name, r.Options)
	}))
	handle("/VolumeDriver.Get", decoded(func(_ context.Context, r *volume.GetRequest) (any, error) {
		v, err := d.Get(r.Name)
		return volume.GetResponse{Volume: v}, err
	}))
	handle("/VolumeDriver.Path", decoded(func(_ context.Context, r *volume.PathRequest) (any, error) {
		p, err := d.Path(r.Name)
		return volume.PathResponse{Mountpoint: p}, err
	}))
	handle("/VolumeDriver.Remove", decoded(func(ctx context.Context, r *volume.RemoveRequest) (any, error) {
		return none{}, d.Remove(ctx, r.Name)
	}))
	handle("/VolumeDriver.Mount", decoded(func(ctx context.Context, r *volume.MountRequest) (any, error) {
		if r.ID == "" {
			return nil, malformedError{errors.New("the request has no mount ID")}
		}
		p, err := d.Mount(ctx, r.Name, r.ID)
		return volume.MountResponse{Mountpoint: p}, err
	}))
	handle("/VolumeDriver.Unmount", decoded(func(ctx context.Context, r *volume.UnmountRequest) (any, error) {
		return none{}, d.Unmount(ctx, r.Name, r.ID)
	}))
	return mux
}

// errRepeated is the answer to a request without a body: the engine repeats a request
// during which the plugin's process died, but has sent the body already.
var errRepeated = errors.New("the plugin was restarted while it was at work on this: run it again " +
	"(the engine has repeated the request, which is empty then)")

// ErrStopping is the cause with which the contexts of unfinished requests end when the
// plugin stops. It is their answer.
var ErrStopping = errors.New("the plugin was stopped while it was at work on this: run it again when the plugin is enabled")

// malformedError is the error of a request that no engine makes.
type malformedError struct{ error }

// call reads the body of a request, and answers it.
type call func(ctx context.Context, body io.Reader) (any, error)

// decoded reads the body as a T before it calls f.
func decoded[T any](f func(ctx context.Context, request *T) (any, error)) call {
	return func(ctx context.Context, body io.Reader) (any, error) {
		var r T
		if err := intake.Whole(ctx, body, func(data []byte) error {
			if len(data) == 0 {
				return errRepeated
			}
			err := intake.Elements(data, intake.MaxElements)
			if err == nil {
				err = json.Unmarshal(data, &r)
			}
			if err != nil {
				return malformedError{fmt.Errorf("the request is malformed: %w", err)}
			}
			return nil
		}); err != nil {
			return nil, err
		}
		return f(ctx, &r)
	}
}

// unread passes over the body before it calls f.
func unread(f func() any) call {
	return func(_ context.Context, body io.Reader) (any, error) {
		if _, err := io.Copy(io.Discard, body); err != nil {
			return nil, err
		}
		return f(), nil
	}
}

// bounded is the body of a request, and the error with which it ended.
type bounded struct {
	io.Reader
	err error
}

func (b *bounded) Read(data []byte) (int, error) {
	n, err := b.Reader.Read(data)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

// serve answers a request of the engine with the result of f. A panic is an error of this request
// alone: if the connection just ended, the engine would repeat the request.
func serve(log *logrus.Logger, f call) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := origin.Begin(r.Context(), origin.Actor{Kind: origin.Engine})
		status, answer := http.StatusOK, any(nil)
		defer func() {
			if p := recover(); p != nil {
				log.WithContext(ctx).WithField("stack", string(debug.Stack())).Errorf("panic in %s: %v", r.URL.Path, p)
				status, answer = http.StatusInternalServerError, volume.NewErrorResponse(fmt.Sprintf("internal error: %v", p))
			}
			w.Header().Set("Content-Type", contentType)
			w.WriteHeader(status)
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				log.WithContext(ctx).WithError(err).Debugf("answer %s", r.URL.Path)
			}
		}()
		body := &bounded{Reader: http.MaxBytesReader(w, r.Body, maxBody)}
		var err error
		answer, err = f(ctx, body)
		tooLarge, isTooLarge := errors.AsType[*http.MaxBytesError](body.err)
		_, malformed := errors.AsType[malformedError](err)
		switch {
		case err == nil:
		case isTooLarge:
			status = http.StatusRequestEntityTooLarge
			err = fmt.Errorf("the request is larger than %d bytes", tooLarge.Limit)
		case body.err != nil, malformed:
			status = http.StatusBadRequest
		default:
			status = http.StatusInternalServerError
			if errors.Is(context.Cause(r.Context()), ErrStopping) {
				err = ErrStopping
			}
		}
		if err != nil {
			answer = volume.NewErrorResponse(err.Error())
		}
	})
}
