package admin

import (
	"context"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/janitor"
)

// Janitor is the part of *janitor.Janitor that the API uses.
type Janitor interface {
	Holdings(ctx context.Context, of janitor.Choice) (janitor.Holdings, error)
	Plan(ctx context.Context) (janitor.Plan, error)
	Sweep(ctx context.Context) (janitor.Report, error)
	Prune(ctx context.Context, sel janitor.Selection, dry bool) (janitor.Report, error)
	EventsAfter(seq int64) (events []janitor.Event, more <-chan struct{})
	Stats() janitor.Stats
	Nudge()
}

func (c Config) plan(r *http.Request) (any, error) {
	p, err := c.Janitor.Plan(r.Context())
	if err != nil {
		return nil, err
	}
	return planOf(p), nil
}

func (c Config) sweep(r *http.Request) (any, error) {
	// Complete the sweep even if the client disconnects, because an interrupted one is
	// not reported.
	report, err := c.Janitor.Sweep(context.WithoutCancel(r.Context()))
	if err != nil {
		return nil, err
	}
	return reportOf(report), nil
}

func (c Config) stats(r *http.Request) (any, error) {
	subjects, h, err := c.subjects(r.Context())
	if err != nil {
		return nil, err
	}
	s := api.Stats{
		Subjects: len(subjects), Trash: sizeOf(h.Trash), Own: sizeOf(h.Own), Space: spaceOf(h.Space), MaxSize: h.Limits.MaxSize, MinFree: h.Limits.MinFree,
		Counts: []api.Count{}, Findings: []api.Finding{},
	}
	for _, of := range subjects {
		s.Clones += of.Clones
		s.Volumes += of.Volumes
		s.Workspaces += of.Workspaces
		s.Checkpoints += of.Checkpoints
		s.Leases += of.Leases
		s.Size, s.Classes = s.Size.Add(of.Size), s.Classes.Add(of.Classes)
	}
	own := c.Janitor.Stats()
	for _, n := range own.Counts {
		s.Counts = append(s.Counts, api.Count{Type: string(n.Type), Kind: kindOf(n.Kind), Reason: string(n.Reason), Times: n.Times, Size: sizeOf(n.Size)})
	}
	for _, f := range own.Findings {
		s.Findings = append(s.Findings, api.Finding{
			Since: f.Since.UTC(), Reason: string(f.Reason), Clone: f.Clone, Volume: f.Volume, ID: f.ID, Size: sizeOf(f.Size), Growth: f.Growth, Text: f.Text,
		})
	}
	s.FindingsAt = own.FindingsAt.UTC()
	s.Last = reportOf(own.Last)
	return s, nil
}

func spaceOf(s disk.Space) api.Space { return api.Space{Total: sizeOf(s.Total), Free: sizeOf(s.Free)} }

// kindOf returns the name of a kind; empty for nil.
func kindOf(k *janitor.Kind) string {
	if k == nil {
		return ""
	}
	return k.String()
}

func planOf(p janitor.Plan) api.Plan {
	out := api.Plan{
		Evictions: evictionsOf(p.Evictions), More: p.More, Frees: sizeOf(p.Frees), Used: sizeOf(p.Used), Trash: sizeOf(p.Trash),
		Space: spaceOf(p.Space), Late: p.Late,
	}
	for _, m := range p.Missing {
		out.Missing = append(out.Missing, api.Missing{Reason: string(m.Reason), Subject: m.Subject, Size: sizeOf(m.Size), Text: m.Text})
	}
	for _, h := range p.Holders {
		out.Holders = append(out.Holders, api.Holder{
			Clone: h.Clone, Repo: h.Repo, Subject: h.Subject, Volume: h.Volume, Checkpoint: h.Checkpoint, Size: sizeOf(h.Size), Unmeasured: h.Unmeasured, Held: h.Why(),
		})
	}
	for _, t := range p.TooLarge {
		out.TooLarge = append(out.TooLarge, api.TooLarge{
			Clone: t.Clone, Repo: t.Repo, Subject: t.Subject, Size: t.Size, Limit: t.Limit, Reason: string(t.Reason), Grace: t.Grace,
		})
	}
	return out
}

func evictionsOf(list []janitor.Eviction) []api.Eviction {
	out := []api.Eviction{}
	for _, e := range list {
		out = append(out, api.Eviction{
			Kind: e.Kind.String(), Reason: string(e.Reason), Subject: e.Subject, Clone: e.Clone, ID: e.ID, Volume: e.Volume, Size: sizeOf(e.Size),
			Text: e.Text, TooLarge: e.TooLarge, Unused: e.Unused,
		})
	}
	return out
}

func reportOf(r janitor.Report) api.Report {
	return api.Report{
		Began: r.Began.UTC(), Took: r.Took, Evicted: evictionsOf(r.Evicted), Frees: sizeOf(r.Frees), Held: r.Held, Failed: r.Failed, Left: planOf(r.Left),
	}
}

func eventOf(e janitor.Event) api.Event {
	return api.Event{
		Seq: e.Seq, Time: e.Time.UTC(), Type: string(e.Type), Kind: kindOf(e.Kind), Reason: string(e.Reason),
		Subject: e.Subject, Clone: e.Clone, ID: e.ID, Volume: e.Volume, Size: sizeOf(e.Size), Text: e.Text,
	}
}
