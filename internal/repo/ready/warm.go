package ready

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// WarmRequest says what to warm: what a volume with these options would mount.
type WarmRequest struct {
	Repo    string // a URL
	Ref     string // as a volume names it; empty: that of Options, or the default branch
	Subject string // empty: that of Options, or of a volume without one
	Options map[string]string
}

// Warmed is the result of Warm.
type Warmed struct {
	Clone   string // its key
	Subject string
	Repo    string // the normalized URL
	Ref     string // as the volume names it
	Commit  string
	Size    disk.Size    // of the clone, as far as it was measured
	States  []warm.State // of the warm paths
}

// Progress is how far Warm has come.
type Progress struct {
	Status string // what is being done
	// Objects of Total are done; Total is zero if it is unknown.
	Objects, Total int64
}

// progressEvery is how often Warm looks at the progress of the work.
const progressEvery = 100 * time.Millisecond

// Warm does what the first Mount of a volume would do, up to its layers: it asks the remote,
// makes the clone if there is none, fetches and builds. The next such Mount waits for its
// question alone. The clone counts as used at the end. It finds what was pushed before the call:
// equal calls share the work until its question to the remote begins, and only the fetch and the
// layers later. Only a few checkouts are warmed at a time. It calls report, from one goroutine,
// when the progress has changed.
//
// If ctx ends, the error is its cause. The work ends too, except what somebody else waits
// for, such as a Mount. For a wrong request the error is a *volume.OptionError.
func (k *Keeper) Warm(ctx context.Context, r WarmRequest, report func(Progress)) (Warmed, error) {
	o, err := k.optionsOf(r)
	if err != nil {
		return Warmed{}, err
	}
	c := k.config.Clone(o)
	result := Warmed{Clone: clone.Key(o.Subject, o.Repo), Subject: string(o.Subject), Repo: o.Repo.Normalized(), Ref: o.Ref.String()}
	var begun sync.Once
	turn := make(chan struct{}) // closed when the work has its turn, if this call began it
	stop := k.watch(c, turn, report)
	defer stop()
	spec := clone.SpecOf(o)
	spec.Since.Asked = c.Asked()
	key := fmt.Sprint("warm\x00", result.Clone, "\x00", o.Map(), "\x00", spec.Since.Asked)
	log := k.config.Log.WithContext(ctx)
	owner := work.Owner{Name: "an operator who warms a clone", Subject: result.Subject, Ends: true} // when all clients have gone
	type ahead struct {
		commit string
		states []warm.State
	}
	has, err := work.Share(work.WithOwner(ctx, owner), k.config.Work, key, func(err error) { log.Error(err) },
		func(ctx context.Context) (has ahead, err error) {
			slot, err := k.warms.Acquire(ctx, work.Fetch, false)
			if err != nil {
				return has, err
			}
			defer slot.Release()
			begun.Do(func() { close(turn) })
			res, err := c.Warm(ctx, spec, func(co *clone.Checkout) (err error) {
				if len(o.Warm.Paths()) > 0 {
					has.states, err = k.config.States(ctx, o, co)
				}
				return err
			})
			has.commit = res.Commit
			return has, err
		})
	if err != nil {
		return Warmed{}, err
	}
	result.Commit, result.States, result.Size = has.commit, has.states, c.Size()
	return result, nil
}

// optionsOf returns the options of the volume that a request describes.
func (k *Keeper) optionsOf(r WarmRequest) (volume.Options, error) {
	given := maps.Clone(r.Options)
	if given == nil {
		given = make(map[string]string)
	}
	for name, value := range map[string]string{"repo": r.Repo, "ref": r.Ref, "subject": r.Subject} {
		if value == "" {
			continue
		}
		if other, ok := given[name]; ok && other != value {
			return volume.Options{}, volume.Refuse(name, other, "is given twice, with other values", "")
		}
		given[name] = value
	}
	if id := given["from"]; id != "" {
		return volume.Options{}, volume.Refuse("from", id, "can't be warmed: it has its layers", "")
	}
	return volume.Parse(given, k.config.Defaults, k.config.Schemes)
}

// watch reports the progress of the work on a clone until stop is called, which waits for a
// report under way.
func (k *Keeper) watch(c Warmable, turn <-chan struct{}, report func(Progress)) (stop func()) {
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		var last Progress
		for {
			if p := progressOf(c.Doing(), turn); p != last {
				last = p
				report(p)
			}
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	})
	return sync.OnceFunc(func() {
		close(ended)
		watcher.Wait()
	})
}

const waiting = "waiting for its turn behind other work"

// progressOf describes the newest work on a clone.
func progressOf(now remote.Now, turn <-chan struct{}) Progress {
	switch {
	case now.Queued:
		return Progress{Status: now.State + ": " + waiting}
	case now.State != "" && now.Progress.Phase != "":
		return Progress{
			Status: now.State + ": " + strings.ToLower(now.Progress.Phase), Objects: now.Progress.Objects, Total: now.Progress.Total,
		}
	case now.State != "":
		return Progress{Status: now.State}
	}
	select {
	case <-turn:
		return Progress{Status: "preparing"}
	default:
		return Progress{Status: waiting}
	}
}
