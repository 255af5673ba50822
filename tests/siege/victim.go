package siege

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
)

// answerWait is how long a call of the plugin may take, so that no plugin can hang a test. It is
// longer than any MOUNT_WAIT that the tests set.
const answerWait = 40 * time.Second

// Victim is a subject that mounts a small repository all the time. The repository has its own
// server.
type Victim struct {
	Subject string
	server  *gitserver.Server
	volume  string
	ids     atomic.Int64
}

// NewVictim starts a server with a small repository in dir, which must exist.
func NewVictim(dir string) (*Victim, error) {
	server, err := gitserver.Start(dir)
	if err != nil {
		return nil, err
	}
	v := &Victim{Subject: "victim", server: server, volume: "victim"}
	if _, err := gitserver.Generate(server.Path("small"), gitserver.Spec{Seed: 7, Files: 50, Commits: 3, Changes: 5}); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return v, nil
}

// Close ends the server.
func (v *Victim) Close() error { return v.server.Close() }

// Warm creates the volume and mounts it again and again until ctx ends. It returns how long each
// Mount took, without the first one, which clones. Each Mount asks the remote. An error ends it.
func (v *Victim) Warm(ctx context.Context, d *daemon.Daemon) (mounts Sample, err error) {
	if err := v.Prepare(d); err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		took, err := v.Mount(d)
		if err != nil {
			return mounts, err
		}
		mounts = append(mounts, took)
	}
	return mounts, nil
}

// Prepare creates the volume of Warm, and mounts it once.
func (v *Victim) Prepare(d *daemon.Daemon) error {
	err := v.create(d, v.volume, "small", "always")
	if err == nil {
		_, err = v.Mount(d)
	}
	return err
}

// Mount mounts and unmounts the volume of Warm once, and returns how long the Mount took.
func (v *Victim) Mount(d *daemon.Daemon) (time.Duration, error) { return v.mount(d, v.volume) }

// Cold mounts repositories that the plugin does not have yet, one after the other, until ctx ends.
// It returns how long each Mount took. It mounts at least one.
func (v *Victim) Cold(ctx context.Context, d *daemon.Daemon) (mounts Sample, err error) {
	for len(mounts) == 0 || ctx.Err() == nil {
		name := fmt.Sprint("cold-", v.ids.Add(1))
		if err := os.Symlink(v.server.Path("small"), v.server.Path(name)); err != nil {
			return mounts, err
		}
		if err := v.create(d, name, name, "auto"); err != nil {
			return mounts, err
		}
		took, err := v.mount(d, name)
		if err != nil {
			return mounts, err
		}
		mounts = append(mounts, took)
		if err := withTimeout(func(ctx context.Context) error { return d.Remove(ctx, name) }); err != nil {
			return mounts, err
		}
	}
	return mounts, nil
}

func (v *Victim) create(d *daemon.Daemon, volume, repo, refresh string) error {
	return withTimeout(func(ctx context.Context) error {
		return d.Create(ctx, volume, map[string]string{"repo": v.server.URL(repo), "subject": v.Subject, "refresh": refresh})
	})
}

// mount mounts and unmounts a volume, and returns how long the Mount took. If the answer is that the work
// continues, it mounts again, as a user does, and all of that counts: a slow machine may need longer than MOUNT_WAIT.
func (v *Victim) mount(d *daemon.Daemon, volume string) (took time.Duration, err error) {
	id := fmt.Sprint("victim-", v.ids.Add(1))
	began := time.Now()
	if err := withTimeout(func(ctx context.Context) error {
		for {
			_, err := d.Mount(ctx, volume, id)
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), continues) {
				return err
			}
		}
	}); err != nil {
		return 0, fmt.Errorf("mount %s: %w", volume, err)
	}
	took = time.Since(began)
	if err := withTimeout(func(ctx context.Context) error { return d.Unmount(ctx, volume, id) }); err != nil {
		return 0, fmt.Errorf("unmount %s: %w", volume, err)
	}
	return took, nil
}

// withTimeout calls f with a context that ends after answerWait.
func withTimeout(f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), answerWait, fmt.Errorf("no answer within %v", answerWait))
	defer cancel()
	if err := f(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}
