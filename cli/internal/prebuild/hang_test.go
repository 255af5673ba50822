package prebuild

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

// hanging is a plugin, and an engine, that do not answer some questions.
type hanging struct {
	*world
	warm, copy bool
}

func (h *hanging) Warm(ctx context.Context, q api.Warm, progress func(api.Progress)) (api.WarmResult, error) {
	if !h.warm {
		return h.world.Warm(ctx, q, progress)
	}
	<-ctx.Done()
	return api.WarmResult{}, ctx.Err()
}

func (h *hanging) CopyFromContainer(ctx context.Context, id string, o client.CopyFromContainerOptions) (r client.CopyFromContainerResult, err error) {
	if !h.copy {
		return h.world.CopyFromContainer(ctx, id, o)
	}
	<-ctx.Done()
	return r, ctx.Err()
}

// TestHangs checks that each step of a job has the job's timeout, also one without a command, and that the error names the
// step.
func TestHangs(t *testing.T) {
	for want, set := range map[string]func(*hanging, *Prebuilder, *Job){
		"the plugin's look at https://h/app": func(h *hanging, _ *Prebuilder, _ *Job) { h.warm = true },
		"the pull of the image go": func(_ *hanging, p *Prebuilder, j *Job) {
			j.Image = "go"
			p.Pull = func(ctx context.Context, _ string) error {
				<-ctx.Done()
				return ctx.Err()
			}
		},
		"the read of the devcontainer.json of https://h/app": func(h *hanging, _ *Prebuilder, j *Job) {
			h.copy, j.Devcontainer, j.Image, j.Setup = true, true, "", ""
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, j := newWorld(), job()
			j.Timeout = time.Minute
			p, _ := w.prebuilder()
			h := &hanging{world: w}
			p.Engine, p.Plugin = h, h
			set(h, p, &j)
			begin := time.Now()
			_, err := p.Run(t.Context(), j)
			if late, ok := errors.AsType[*HangError](err); !ok || late.What != want || time.Since(begin) != time.Minute {
				t.Errorf("%s: got %v after %v", want, err, time.Since(begin))
			}
			w.clean(t)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("a signal"))
			defer cancel()
			if _, err := p.Run(ctx, j); err == nil || errors.As(err, new(*HangError)) {
				t.Errorf("%s: interrupted, got %v", want, err)
			}
			w.clean(t)
		})
	}
}
