package commands

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
)

// fork makes a volume that begins with a checkpoint, and returns its name. Without a name the engine chooses one. For a name that
// a volume has, the engine would answer with that volume, and not ask the plugin.
func fork(ctx context.Context, s *session.Session, c *api.Client, d api.Checkpoint, name string) (string, error) {
	if name != "" {
		taken, err := exists(ctx, s, name)
		if err != nil {
			return "", err
		}
		if taken {
			return "", nameTaken(ctx, s, name)
		}
	}
	made, err := s.Engine().VolumeCreate(ctx, client.VolumeCreateOptions{
		Name: name, Driver: s.Target.Plugin,
		DriverOpts: map[string]string{"repo": d.Repo, "subject": d.Subject, "from": d.ID, "mode": "keep"},
	})
	if err != nil {
		return "", err
	}
	v, err := c.Volume(ctx, made.Volume.Name)
	switch {
	case err == nil && v.Options["from"] == d.ID:
		return v.Name, nil
	case err == nil || isStatus(err, 404): // somebody else was faster with the name
		return "", nameTaken(ctx, s, made.Volume.Name)
	}
	return "", err
}

// inPlace returns the error of a fork. Where no engine runs the plugin, it says what makes a volume in place of docker.
func inPlace(err error, service bool, checkpoint string) error {
	if !service || !client.IsErrConnectionFailed(err) {
		return err
	}
	return fmt.Errorf("no Docker engine runs this plugin, so no volume was made: give a new one the option from=%s "+
		"(podman volume create --opt), or a pod's volume the attribute from", checkpoint)
}

// nameTaken is the error of the name of a volume that exists. It proposes another one.
func nameTaken(ctx context.Context, s *session.Session, name string) error {
	err := fmt.Errorf("the volume %s exists, and nothing was made: name a new volume", quote(name))
	for n := 2; n < 100; n++ {
		other := fmt.Sprintf("%s-%d", name, n)
		taken, failed := exists(ctx, s, other)
		if failed != nil {
			return err
		}
		if !taken {
			return fmt.Errorf("%w, such as %s", err, other)
		}
	}
	return err
}

// exists reports whether the engine has a volume, of whatever driver.
func exists(ctx context.Context, s *session.Session, name string) (bool, error) {
	_, err := s.Engine().VolumeInspect(ctx, name, client.VolumeInspectOptions{})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}
