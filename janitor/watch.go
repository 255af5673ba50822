package janitor

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Finding is a problem that eviction can't solve, for the operator.
type Finding struct {
	Since  time.Time
	Reason Reason // the limit concerned
	Clone  string
	Volume string
	ID     string // of a workspace
	// Size is how large it is, or how much is missing, and Growth how much it grew since
	// the sweep before.
	Size   disk.Size
	Growth int64
	Text   string
}

// watch remembers the findings, so that each is logged once per change.
type watch struct {
	at     time.Time // of the inventory that it is about
	named  map[string]named
	uppers map[string]int64 // bytes as of the last sweep, by ID
}

// named is a finding, and its size when it was last logged.
type named struct {
	Finding
	logged int64
	level  int // it is logged again when that is higher
	// until is when a past finding is forgotten; zero: it is current.
	until time.Time
}

// logAgain is the factor by which a finding must grow to be logged again.
const logAgain = 2

// rememberTooLarge is how long the eviction of a clone that is too large is a finding,
// because otherwise nothing would explain why each mount of a volume clones again.
const rememberTooLarge = 24 * time.Hour

// Findings returns the findings of the last sweep, or of the last failed search for room if that came after it.
func (j *Janitor) Findings() []Finding {
	j.mu.Lock()
	defer j.mu.Unlock()
	list := []Finding{}
	for _, key := range slices.Sorted(maps.Keys(j.watch.named)) {
		list = append(list, j.watch.named[key].Finding)
	}
	return list
}

// observe updates the findings, and logs what has changed. inv is the inventory after a
// sweep or a failed search for room.
func (j *Janitor) observe(ctx context.Context, inv Inventory, r Report) {
	found := j.findLimits(r.Left)
	for _, e := range r.Evicted {
		if e.TooLarge && e.Kind == WholeClone {
			found[keyTooLarge(e.Reason, e.Clone)] = named{
				Finding: Finding{Reason: e.Reason, Clone: e.Clone, Size: e.Size, Text: e.Text}, until: inv.Now.Add(rememberTooLarge),
			}
		}
	}
	j.findUppers(inv, r.Left, found)
	var events []Event
	j.mu.Lock()
	for key, f := range j.watch.named {
		if _, still := found[key]; !still && inv.Now.Before(f.until) {
			found[key] = f
		}
	}
	for key, f := range found {
		before, known := j.watch.named[key]
		f.Since, f.logged = inv.Now, before.logged
		if known {
			f.Since = before.Since
		}
		if !known || f.level > before.level || f.level == 0 && f.Size.Bytes >= logAgain*max(before.logged, 1) {
			f.logged = f.Size.Bytes
			events = append(events, f.event(Warning, inv.Now))
		}
		f.level = max(f.level, before.level)
		found[key] = f
	}
	for key, f := range j.watch.named {
		if _, still := found[key]; !still {
			events = append(events, f.event(Cleared, inv.Now))
		}
	}
	j.watch.at, j.watch.named = inv.Now, found
	j.mu.Unlock()
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(strings.Compare(string(a.Type), string(b.Type)), strings.Compare(a.Text, b.Text))
	})
	for _, e := range events {
		if e.Type == Warning {
			j.config.Log.WithContext(ctx).Warn("janitor: " + e.Text)
		} else {
			j.config.Log.WithContext(ctx).Info("janitor: resolved: " + e.Text)
		}
		j.record(e)
	}
}

func (f Finding) event(t EventType, now time.Time) Event {
	return Event{Time: now, Type: t, Reason: f.Reason, Clone: f.Clone, ID: f.ID, Volume: f.Volume, Size: f.Size, Text: f.Text}
}

// findLimits returns findings for limits that stay exceeded, and for clones that are too
// large for one.
func (j *Janitor) findLimits(left Plan) map[string]named {
	found := make(map[string]named)
	for _, l := range left.TooLarge {
		found[keyTooLarge(l.Reason, l.Clone)] = named{Finding: Finding{
			Reason: l.Reason, Clone: l.Clone, Size: disk.Size{Bytes: l.Size}, Text: l.String(),
		}}
	}
	for _, n := range left.Named {
		found[fmt.Sprint("named ", n.Reason, " ", n.Subject)] = named{Finding: Finding{Reason: NamedCheckpoints, Size: disk.Size{Bytes: n.Size}, Text: n.String()}}
	}
	for _, m := range left.Missing {
		found[fmt.Sprint("missing ", m.Reason, " ", m.Subject)] = named{Finding: Finding{
			Reason: m.Reason, Size: m.Size,
			Text: fmt.Sprintf("%s: %s, and nothing more can be evicted: %s", m.Text, m.amount(), Held(left.Holders)),
		}}
	}
	return found
}

func keyTooLarge(r Reason, clone string) string { return fmt.Sprint("large ", r, " ", clone) }

// upperSizes returns the bytes of each workspace by ID.
func upperSizes(inv Inventory) map[string]int64 {
	sizes := make(map[string]int64)
	for _, c := range inv.Clones {
		for _, p := range c.Parts {
			if p.Kind == Upper {
				sizes[p.ID] = p.Size.Bytes
			}
		}
	}
	return sizes
}

// findUppers adds findings for workspaces that are too large.
func (j *Janitor) findUppers(inv Inventory, left Plan, found map[string]named) {
	short := slices.ContainsFunc(left.Missing, func(m Missing) bool { return m.Reason == MinFree })
	var all int64
	for _, bytes := range upperSizes(inv) {
		all += bytes
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range inv.Clones {
		for _, p := range c.Parts {
			if p.Kind != Upper {
				continue
			}
			f := Finding{Clone: c.Key, Volume: p.Volume, ID: p.ID, Size: p.Size}
			if before, ok := j.watch.uppers[p.ID]; ok {
				f.Growth = p.Size.Bytes - before
			}
			wrote := fmt.Sprintf("volume %q has %s written to workspace %s, %s of it since the last sweep", p.Volume, Bytes(p.Size.Bytes), p.ID, Bytes(f.Growth))
			if j.config.WarnSize > 0 && p.Size.Bytes > j.config.WarnSize {
				f.Text = fmt.Sprintf("%s: more than WORKSPACE_WARN_SIZE=%s", wrote, Bytes(j.config.WarnSize))
				found["upper "+p.ID] = named{Finding: f}
			}
			if filled := p.Size.Percent(p.Limit); filled >= nearLimit {
				f := f
				f.Reason = WorkspaceLimit
				f.Text = fmt.Sprintf("volume %q has filled %d%% of the limit of workspace %s, %s: what exceeds it fails in the container",
					p.Volume, filled, p.ID, ofLimit(p))
				found["limit "+p.ID] = named{Finding: f, level: min(filled, 100) / 10}
			}
			// Report a workspace with at least a quarter of the space of all workspaces.
			if short && p.Size.Bytes > 0 && p.Size.Bytes >= all/4 {
				f.Reason = MinFree
				f.Text = fmt.Sprintf("%s: it holds the disk below MIN_FREE=%g%%, and eviction can't help", wrote, j.config.Limits.MinFree*100)
				found["short "+p.ID] = named{Finding: f}
			}
		}
	}
}

// nearLimit is the share of its limit, in percent, from which a workspace is a Finding.
const nearLimit = 90

// ofLimit shows what a workspace holds of what it may hold.
func ofLimit(p Part) string {
	var list []string
	if p.Limit.Bytes > 0 {
		list = append(list, fmt.Sprintf("%s of %s", Bytes(p.Size.Bytes), Bytes(p.Limit.Bytes)))
	}
	if p.Limit.Inodes > 0 {
		list = append(list, fmt.Sprintf("%d of %d inodes", p.Size.Inodes, p.Limit.Inodes))
	}
	return strings.Join(list, " and ")
}
