package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/overlay"
)

// errAnew is wrapped by errors after which the process must end at once, so that the
// engine restarts it.
var errAnew = errors.New("the plugin ends, and the engine restarts it")

// errUnreached means that no mount of this process reaches a container.
var errUnreached = fmt.Errorf("the engine has unmounted the plugin's directory under it, and no mount reaches a container: %w", errAnew)

// errLost is the error of a Mount that would reach no container.
var errLost = errors.New("the engine has lost this plugin's mounts, it starts anew: run it again")

// reach checks whether mounts propagate to the engine. If the engine is late to handle
// the end of an earlier process of the plugin, it unmounts the propagated mount, possibly
// after it has prepared that for the new process. Then the two are not in one peer group,
// and only a restart of the plugin repairs that.
type reach struct {
	dir  string // of the mount points
	log  *logrus.Logger
	lose func()          // closes lost
	lost <-chan struct{} // nil if this is not a managed plugin
}

// newReach mounts the tmpfs of the mount points. In a managed plugin the error is
// errUnreached if mounts in it do not propagate.
func newReach(at places, log *logrus.Logger, reserve *disk.Reserve) (*reach, error) {
	r := &reach{dir: overlay.PointsDir(at.data), log: log}
	if err := reserve.Retry(func() error { return overlay.MountPoints(r.dir) }); err != nil {
		return nil, err
	}
	if !at.managed { // mounts are on the host itself
		return r, nil
	}
	gone, _, err := overlay.Unmounted(r.dir)
	if err != nil {
		return nil, err
	}
	shared, err := overlay.Propagates(r.dir)
	if err != nil {
		return nil, err
	}
	if !shared {
		return nil, errUnreached
	}
	lost := make(chan struct{})
	r.lost, r.lose = lost, sync.OnceFunc(func() { close(lost) })
	go func() {
		<-gone
		r.lose()
	}()
	return r, nil
}

// check is called before the reply to a Mount.
func (r *reach) check() error {
	if r.lost == nil {
		return nil
	}
	shared, err := overlay.Propagates(r.dir)
	if err != nil { // without the mount point a container does not start anyway
		r.log.WithError(err).Warn("mount: unknown whether it reaches the engine")
		return nil
	}
	if !shared {
		r.lose()
		return errLost
	}
	return nil
}
