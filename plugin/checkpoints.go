package main

import (
	"context"
	"fmt"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/audit"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/janitor"
)

// checkpointed is workspace.Config.Observe: it counts, and reports what users did as events.
func (p *parts) checkpointed(m machine) func(context.Context, workspace.Event) {
	return func(ctx context.Context, e workspace.Event) {
		m.counters.Checkpoint(e)
		if e.Step == workspace.StepDropped && e.Idle {
			m.audit.draftDropped(ctx, e)
		}
		if event, ok := eventOfCheckpoint(e); ok {
			p.janitor.Note(event)
		}
	}
}

// eventOfCheckpoint returns the event of a step; not ok if it has none. The end of a workspace has none, because there may be
// thousands in an hour, and they would push out all others.
func eventOfCheckpoint(e workspace.Event) (event janitor.Event, ok bool) {
	if e.Err != nil {
		return event, false
	}
	kind, rec := janitor.Checkpoint, e.Record
	event = janitor.Event{Kind: &kind, Subject: rec.Options["subject"], Clone: rec.Clone, ID: rec.ID, Volume: rec.Volume, Size: rec.Size.Size}
	switch e.Step {
	case workspace.StepMade:
		if rec.Made == meta.MadeByEnd {
			return event, false
		}
		event.Type, event.Text = janitor.Checkpointed, "a user made it of a workspace that goes on"
		if rec.Made == meta.MadeByRewind {
			event.Text = "it is what the volume had before it went back"
		}
		if rec.Name != "" {
			event.Text += fmt.Sprintf(", with the name %q: it does not expire", rec.Name)
		}
	case workspace.StepNoted:
		event.Type, event.Text = janitor.Checkpointed, "a user gave it a message"
		if rec.Name != "" {
			event.Text = fmt.Sprintf("its name is %q: it does not expire", rec.Name)
		}
	case workspace.StepRemoved:
		event.Type, event.Text = janitor.Removed, "a user removed it"
	case workspace.StepBegun:
		event.Type, event.ID, event.Text = janitor.Begun, rec.From[0], fmt.Sprintf("workspace %s of the volume begins with it", rec.ID)
	case workspace.StepRewound:
		event.Type, event.ID, event.Text = janitor.Rewound, rec.From[0], fmt.Sprintf("the volume went back to it, in workspace %s", rec.ID)
	default:
		return event, false
	}
	return event, true
}

// draftDropped records a draft that no client has continued, or that a Mount has ended.
func (a auditor) draftDropped(ctx context.Context, e workspace.Event) {
	rec := e.Record
	a.Record(ctx, api.AuditRecord{
		Action: "checkpoint.drop", Actor: audit.Own, Volume: rec.Volume, VolumeID: rec.VolumeID, Subject: rec.Options["subject"], Repo: rec.Options["repo"],
		Ref: rec.Ref, Commit: rec.Commit, Clone: rec.Clone, Checkpoint: rec.ID, Name: rec.Name, Text: "its client did not go on, or a mount needed the workspace",
	}, e.Err)
}
