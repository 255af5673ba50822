package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
)

// The values of the labels of checkpoints, besides those of result.
const (
	resultDropped = "dropped"
	passFirst     = "first"
	passCatchUp   = "catch_up"
	howCopied     = "copied"
	howShared     = "shared"
)

// passBuckets are in seconds. A catch-up of a thousand files takes some 5 ms, and the first pass of half a million minutes.
var passBuckets = []float64{.002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300}

// causes are all causes of checkpoints.
var causes = []meta.Made{meta.MadeByEnd, meta.MadeByUser, meta.MadeByRewind}

// makeCheckpoints makes the counters of checkpoints, with all their series.
func (c *Counters) makeCheckpoints() {
	c.checkpoints = c.counter("checkpoints_made_total",
		"Checkpoints that were made, by the end of a workspace, by a user, or by a rewind. Of those of users, error counts those that failed, and "+
			"dropped those that their client gave up or did not complete.", "made", "result")
	c.passes = c.histogram("checkpoint_pass_duration_seconds",
		"How long the plugin took for a pass over a workspace of which a user made a checkpoint. Containers run during the first, and are paused during the "+
			"catch-up, unless the caller does not pause them; a pause is longer by the calls of the engine.", passBuckets, "pass")
	c.copied = c.counter("checkpoint_bytes_total", "The data of checkpoints that users made: copied, or shared with the workspace (reflinks).", "how")
	c.forks = c.counter("checkpoint_forks_total", "New workspaces that began with a checkpoint.")
	c.rewinds = c.counter("rewinds_total", "Volumes that went back to a checkpoint.", "result")

	for _, made := range causes {
		c.checkpoints.WithLabelValues(made.String(), resultOK)
	}
	for _, result := range []string{resultError, resultDropped} {
		c.checkpoints.WithLabelValues(meta.MadeByUser.String(), result)
	}
	for _, result := range []string{resultOK, resultError} {
		c.rewinds.WithLabelValues(result)
	}
	for _, pass := range []string{passFirst, passCatchUp} {
		c.passes.WithLabelValues(pass)
	}
	for _, how := range []string{howCopied, howShared} {
		c.copied.WithLabelValues(how)
	}
	c.forks.WithLabelValues()
}

// Checkpoint counts a step of a checkpoint: see workspace.Config.Observe.
func (c *Counters) Checkpoint(e workspace.Event) {
	user := c.checkpoints.MustCurryWith(prometheus.Labels{"made": meta.MadeByUser.String()})
	switch e.Step {
	case workspace.StepCopied, workspace.StepCaughtUp:
		pass := passFirst
		if e.Step == workspace.StepCaughtUp {
			pass = passCatchUp
		}
		if e.Err != nil {
			user.WithLabelValues(resultError).Inc()
			return
		}
		c.passes.WithLabelValues(pass).Observe(e.Took.Seconds())
		c.copied.WithLabelValues(howCopied).Add(float64(e.Copied.Copied))
		c.copied.WithLabelValues(howShared).Add(float64(e.Copied.Cloned))
	case workspace.StepMade:
		c.checkpoints.WithLabelValues(e.Record.Made.String(), resultOf(e.Err)).Inc()
	case workspace.StepDropped:
		user.WithLabelValues(resultDropped).Inc()
	case workspace.StepBegun:
		c.forks.WithLabelValues().Inc()
	case workspace.StepRewound:
		c.rewinds.WithLabelValues(resultOf(e.Err)).Inc()
	}
}

func resultOf(err error) string {
	if err != nil {
		return resultError
	}
	return resultOK
}

// Checkpoints are those that there are now.
type Checkpoints struct {
	Made       map[meta.Made]int // by cause
	Named      int
	NamedBytes int64
}

// checkpoints are the metrics of what there is.
func checkpoints() []figure {
	return []figure{
		{"checkpoints", "Checkpoints by what made them: the end of a workspace, a user, or a rewind.", []string{"made"}, prometheus.GaugeValue, func(f *Figures, put put) {
			for _, made := range causes {
				put(float64(f.Checkpoints.Made[made]), made.String())
			}
		}},
		gauge("named_checkpoints", "Checkpoints with a name, which are never evicted, nor are the clones that they need.",
			func(f *Figures) float64 { return float64(f.Checkpoints.Named) }),
		gauge("named_checkpoint_bytes", "What the checkpoints with a name take, as far as it was measured, without the clones that they need.",
			func(f *Figures) float64 { return float64(f.Checkpoints.NamedBytes) }),
	}
}
