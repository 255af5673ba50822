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
	handle := func(path string, f func(ctx context.Context, body []byte) (any, error)) {
		mux.Handle("POST "+path, serve(d.Log, f))
	}
	type none struct{}
	handle("/Plugin.Activate", func(context.Context, []byte) (any, error) {
		return map[string][]string{"Implements": {"VolumeDriver"}}, nil
	})
	handle("/VolumeDriver.Capabilities", func(context.Context, []byte) (any, error) {
		return volume.CapabilitiesResponse{Capabilities: volume.Capability{Scope: "local"}}, nil
	})
	handle("/VolumeDriver.List", func(context.Context, []byte) (any, error) {
		return volume.ListResponse{Volumes: d.List()}, nil
	})
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
			return nil, errors.New("the request has no mount ID")
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

// decoded reads the body as a T before it calls f.
func decoded[T any](f func(ctx context.Context, request *T) (any, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, body []byte) (any, error) {
		if len(body) == 0 {
			return nil, errRepeated
		}
		var r T
		if err := json.Unmarshal(body, &r); err != nil {
			return nil, fmt.Errorf("the request is malformed: %w", err)
		}
		return f(ctx, &r)
	}
}

// serve answers a request of the engine with the result of f. A panic is an error of this request
// alone: if the connection just ended, the engine would repeat the request.
func serve(log *logrus.Logger, f func(ctx context.Context, body []byte) (any, error)) http.Handler {
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
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			status = http.StatusRequestEntityTooLarge
			err = fmt.Errorf("the request is larger than %d bytes", tooLarge.Limit)
		case err != nil:
			status = http.StatusBadRequest
		default:
			if answer, err = f(ctx, body); err != nil {
				status = http.StatusInternalServerError
				if errors.Is(context.Cause(r.Context()), ErrStopping) {
					err = ErrStopping
				}
			}
		}
		if err != nil {
			answer = volume.NewErrorResponse(err.Error())
		}
	})
}
