package workspace

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// Step is what happened to a checkpoint.
type Step string

const (
	StepCopied   Step = "copied"    // Draft has copied a workspace, or failed
	StepCaughtUp Step = "caught up" // CatchUp has copied what had changed since, or failed
	StepMade     Step = "made"      // there is a new checkpoint, or Keep has failed
	StepDropped  Step = "dropped"   // a draft was given up
	StepNoted    Step = "noted"     // it got a name or a message
	StepBegun    Step = "begun"     // a new workspace begins with it
	StepRewound  Step = "rewound"   // a volume went back to it, or Rewind has failed
	StepRemoved  Step = "removed"   // RemoveCheckpoint or Clear has removed it; the janitor's evictions are no step
)

// Event is a step of the life of a checkpoint: see Config.Observe.
type Event struct {
	Step Step
	// Record is that of the checkpoint or the draft, and in StepBegun and StepRewound that of the new workspace. After an error
	// it has what is known.
	Record meta.Workspace
	// Copied says what a copy did, and Took how long it took, in StepCopied and StepCaughtUp.
	Copied Copied
	Took   time.Duration
	// Idle is set in StepDropped if no client asked for that.
	Idle bool
	Err  error
}

// observe tells Config.Observe.
func (c *Config) observe(ctx context.Context, e Event) {
	if c.Observe != nil {
		c.Observe(ctx, e)
	}
}
