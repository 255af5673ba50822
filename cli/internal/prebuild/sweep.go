package prebuild

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// grace is the age from which a container that was never started, or an image, is a leftover. A younger one may be of a
// prebuild that is using it.
const grace = time.Minute

// sweep removes what killed prebuilds have left: containers that have ended, or whose time is over, and their
// anonymous volumes. Nothing else is forced, so the engine refuses to remove a volume or an image that a container has.
// Errors are ignored, because the next sweep tries again.
func (p *Prebuilder) sweep(ctx context.Context) {
	mine := make(client.Filters).Add("label", label)
	containers, err := p.Engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: mine})
	if err != nil {
		return
	}
	for _, c := range containers.Items {
		ended := c.State == container.StateExited || c.State == container.StateDead ||
			c.State == container.StateCreated && time.Since(time.Unix(c.Created, 0)) > grace
		over := isOver(c.Labels[untilLabel])
		if (ended || over) && slices.Contains(c.Names, "/"+c.Labels[label]) {
			_, _ = p.Engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: over, RemoveVolumes: true})
		}
	}
	volumes, err := p.Engine.VolumeList(ctx, client.VolumeListOptions{Filters: mine})
	if err != nil {
		return
	}
	for _, v := range volumes.Items {
		if v.Name == v.Labels[label] {
			_, _ = p.Engine.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
		}
	}
	images, err := p.Engine.ImageList(ctx, client.ImageListOptions{Filters: mine})
	if err != nil {
		return
	}
	for _, i := range images.Items {
		// An image that somebody makes of a prebuild's container has the label too, with another value.
		if i.Labels[label] == emptyImage && time.Since(time.Unix(i.Created, 0)) > grace {
			_, _ = p.Engine.ImageRemove(ctx, i.ID, client.ImageRemoveOptions{PruneChildren: true})
		}
	}
}

// isOver reports whether the time of a container is over, by its label, for longer than its own command takes to end it.
func isOver(until string) bool {
	at, err := strconv.ParseInt(until, 10, 64)
	return err == nil && time.Since(time.Unix(at, 0)) > grace
}
