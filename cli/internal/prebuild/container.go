package prebuild

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

const (
	// label marks the containers and volumes of prebuilds. Its value is their name.
	label = "com.helmdeck.repos.prebuild"
	// untilLabel says when a container has to have ended, in seconds since 1970: its command may not live to end it.
	untilLabel = label + ".until"
	// cleanUp bounds the removal of a container and its volume, also after an interrupt.
	cleanUp = time.Minute
)

// script runs a command in a shell of its own, whatever that does to itself, and makes the mark with the state's label if
// it succeeded. The mark is renamed into place, because a full disk can leave half of it. The script changes the directory,
// because the engine mounts a volume once more for a working directory in it. After a failure it removes a mark that the command made itself.
const script = `cd "$3" || exit; mark=.git/helmdeck-publish; sh -c "$1" || { code=$?; rm -rf $mark; exit $code; }; rm -rf $mark
printf %s "$2" >$mark~ && mv $mark~ $mark || { rm -f $mark~; exit 1; }`

// command runs the command of an action in a new container with a new volume, removes both, and returns when what the
// container left is published.
func (p *Prebuilder) command(ctx context.Context, j Job, image, action, stateLabel string) (err error) {
	text := j.Setup
	if action == Update {
		text = j.Update
	}
	env, err := j.variables()
	if err != nil {
		return err
	}
	name := newName()
	config := &container.Config{
		Image: image, Labels: map[string]string{label: name, untilLabel: strconv.FormatInt(time.Now().Add(j.Timeout).Unix(), 10)}, Env: env, User: j.user(),
		Entrypoint: []string{"sh", "-c", script}, Cmd: []string{"prebuild", text, stateLabel, j.Target},
		AttachStdout: true, AttachStderr: true,
	}
	host := p.host(name, j.Target, j.volume())
	host.NetworkMode = container.NetworkMode(j.Network)
	code, err := p.run(ctx, name, config, host, &TimeoutError{action, j.Timeout})
	if code != 0 {
		err = errors.Join(&ExitError{action, code}, err)
	}
	if ctx.Err() != nil { // the user does not wait: a checkpoint goes by itself
		return errors.Join(context.Cause(ctx), err)
	}
	return errors.Join(err, p.published(ctx, name))
}

// host returns the settings of a container with a volume of its own.
func (p *Prebuilder) host(name, target string, options map[string]string) *container.HostConfig {
	return &container.HostConfig{
		// What the commands print may be secret, and the engine's log would keep it.
		LogConfig: container.LogConfig{Type: "none"},
		Mounts: []mount.Mount{{
			Type: mount.TypeVolume, Source: name, Target: target,
			VolumeOptions: &mount.VolumeOptions{
				NoCopy: true, Labels: map[string]string{label: name}, DriverConfig: &mount.Driver{Name: p.Driver, Options: options},
			},
		}},
	}
}

// newName returns a random name for a container and its volume.
func newName() string {
	var random [8]byte
	rand.Read(random[:]) // it never fails
	return "repos-prebuild-" + hex.EncodeToString(random[:])
}

// run runs a container, and returns its exit code, or late if it takes longer than that. The container and its volume
// are gone then. If they can't be removed, that is a warning after exit code 0, because the sweep of a later prebuild
// removes them, and otherwise a part of the error: a container that is late may go on.
func (p *Prebuilder) run(
	ctx context.Context, name string, config *container.Config, host *container.HostConfig, late *TimeoutError,
) (code int, err error) {
	id := ""
	defer func() {
		if left := p.remove(ctx, id, name); left != nil && code == 0 && err == nil && p.Warn != nil {
			p.Warn(left)
		} else {
			err = errors.Join(err, left)
		}
	}()
	made, err := p.Engine.ContainerCreate(ctx, client.ContainerCreateOptions{Name: name, Config: config, HostConfig: host})
	if err != nil {
		return 0, err
	}
	id = made.ID
	ctx, cancel := context.WithTimeoutCause(ctx, late.After, late)
	defer cancel()
	stream, err := p.Engine.ContainerAttach(ctx, id, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true})
	if err != nil {
		return 0, cmp.Or(context.Cause(ctx), fmt.Errorf("attach to the container: %w", err))
	}
	defer stream.Close()
	ended := p.Engine.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := p.Engine.ContainerStart(ctx, id, client.ContainerStartOptions{}); err != nil {
		return 0, cmp.Or(context.Cause(ctx), err)
	}
	copied := make(chan error, 1)
	go func() {
		_, err := stdcopy.StdCopy(p.Output, p.Output, stream.Reader)
		copied <- err
	}()
	// The end of a context is a better reason than what it broke.
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case err := <-copied:
			if err != nil {
				return 0, cmp.Or(context.Cause(ctx), fmt.Errorf("copy the output of the container: %w", err))
			}
			copied = nil
		case err := <-ended.Error:
			return 0, cmp.Or(context.Cause(ctx), fmt.Errorf("wait for the container: %w", err))
		case r := <-ended.Result:
			if r.Error != nil {
				return 0, fmt.Errorf("wait for the container: %s", r.Error.Message)
			}
			if copied != nil { // its last words are on their way
				select {
				case <-copied:
				case <-ctx.Done():
				}
			}
			return int(r.StatusCode), nil
		}
	}
}

// remove removes a container, if it has an ID, its anonymous volumes, and the volume of a name. The end of ctx does not
// end it.
func (p *Prebuilder) remove(ctx context.Context, id, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if id == "" {
		id = name // the answer may be lost
	}
	var errs []error
	all := client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}
	if _, err := p.Engine.ContainerRemove(ctx, id, all); err != nil && !errdefs.IsNotFound(err) {
		errs = append(errs, fmt.Errorf("remove the container %s: %w", name, err))
	}
	// The container may be gone all the same: the engine refuses to remove the volume if it is not.
	_, err := p.Engine.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
	if err != nil && !errdefs.IsNotFound(err) {
		errs = append(errs, fmt.Errorf("remove the volume %s: %w", name, err))
	}
	return errors.Join(errs...)
}
