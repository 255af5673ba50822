package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/overlay"
)

// errAnew is in an error after which the process is to end at once: the engine starts
// a managed plugin anew when it ends by itself.
var errAnew = errors.New("the plugin ends, and the engine starts it anew")

// errUnreached is why no mount of this process reaches a container.
var errUnreached = fmt.Errorf("the engine has unmounted the plugin's directory under it, and no mount reaches a container: %w", errAnew)

// errLost is the answer to a Mount that nobody would see.
var errLost = errors.New("the engine has lost this plugin's mounts, it starts anew: run it again")

// reach watches whether what is mounted here reaches the engine. An engine that
// handles the end of an earlier process of the plugin late unmounts the propagated
// mount; if that comes between its preparation of the mount and the start of the
// plugin, the two are in no peer group together, and only the end of the plugin's
// process repairs it.
type reach struct {
	dir  string // of the mount points
	log  *logrus.Logger
	lose func()          // closes lost
	lost <-chan struct{} // nil if this is not a managed plugin
}

// newReach mounts the tmpfs of the mount points. In a managed plugin the error is
// errUnreached if it reaches nobody.
func newReach(at places, log *logrus.Logger, reserve *disk.Reserve) (*reach, error) {
	r := &reach{dir: overlay.PointsDir(at.data), log: log}
	if err := reserve.Retry(func() error { return overlay.MountPoints(r.dir) }); err != nil {
		return nil, err
	}
	if !at.managed { // what is mounted on the host is there
		return r, nil
	}
	gone, _, err := overlay.Unmounted(r.dir)
	if err != nil {
		return nil, err
	}
	shared, err := overlay.Shared(r.dir)
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

// check is called before a Mount is answered.
func (r *reach) check() error {
	if r.lost == nil {
		return nil
	}
	shared, err := overlay.Shared(r.dir)
	if err != nil { // a container that would not see the mount point does not start
		r.log.WithError(err).Warn("mount: it is not known whether it reaches the engine")
		return nil
	}
	if !shared {
		r.lose()
		return errLost
	}
	return nil
}
