package relay

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/cli/internal/dial"
)

// grace is the age from which a container that does not run, or an image without a container, is a
// leftover. A younger one may be of a caller that is still starting its relay.
const grace = time.Minute

// mostLeftovers bounds how many one sweep removes.
const mostLeftovers = 100

// sweep removes what killed callers have left: containers that were never started, and images. A relay
// that runs ends by itself when its caller is gone. Nothing is forced: the engine refuses to remove a
// container that was started meanwhile, and an image that a container uses. Errors are ignored, because
// the next sweep tries again.
func sweep(ctx context.Context, engine client.APIClient, info system.Info) {
	now, err := time.Parse(time.RFC3339Nano, info.SystemTime)
	if err != nil {
		return
	}
	mine := make(client.Filters).Add("label", label)
	old := func(created int64) bool { return now.Sub(time.Unix(created, 0)) > grace }
	left := mostLeftovers
	containers, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: mine})
	if err != nil {
		return
	}
	for _, c := range containers.Items {
		ended := c.State == container.StateCreated || c.State == container.StateExited || c.State == container.StateDead
		if ended && relayed(c) && old(c.Created) && left > 0 {
			left--
			_, _ = engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{})
		}
	}
	images, err := engine.ImageList(ctx, client.ImageListOptions{Filters: mine})
	if err != nil {
		return
	}
	for _, i := range images.Items {
		if old(i.Created) && !named(i.RepoTags) && left > 0 && imported(ctx, engine, i.ID) {
			left--
			_ = removeImage(ctx, engine, i.ID)
		}
	}
}

// relayed reports whether a container with the label is a relay's: one of another image has the label too
// if its image has it, but not the mount.
func relayed(c container.Summary) bool {
	return slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool {
		return m.Destination == socketDir && strings.HasPrefix(m.Source, dial.Sockets+"/")
	})
}

// imported reports whether load made an image: one that is built or committed from a relay's image has
// the label, but another comment, or more layers.
func imported(ctx context.Context, engine client.APIClient, id string) bool {
	i, err := engine.ImageInspect(ctx, id)
	return err == nil && i.Comment == message && len(i.RootFS.Layers) == 1
}

// named reports whether somebody has named an image. Engines before 25 list a name for images without
// one.
func named(tags []string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return t != "<none>:<none>" })
}
