package janitor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/helmdeck/repos/internal/disk"
)

// TestFindings are said once per change.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{WarnSize: 100, Limits: Limits{DiscardTTL: day, MaxSize: 400, MinFree: .1}},
			"t/a 1h 300 leased; upper u 1h 90 leased vwork\n t/big 1h 450 leased")
		upper := func(n, free int64) {
			s.set(func() { s.inv.Clones[0].Parts[0].Size.Bytes, s.inv.Space.Free.Bytes = n, free })
		}
		seen := 0
		for _, step := range []struct {
			name        string
			upper, free int64
			want        []string // the events that come
		}{
			{"a clone that is too large", 90, 500, []string{`warning: the clone of https://host/t/big for subject "t" takes 450 B, which is more than MAX_SIZE=400 B`}},
			{"nothing new", 90, 500, nil},
			{"too much is written, and MAX_SIZE is exceeded", 110, 500, []string{
				"warning: the clones take 410 B, MAX_SIZE is 400 B: 10 B too much, and nothing more can be evicted: held by",
				`warning: volume "vwork" has 110 B written to workspace u, 20 B of it since the last sweep: more than WORKSPACE_WARN_SIZE=100 B`,
			}},
			{"a little more of it", 115, 500, nil},
			{"twice as much", 230, 500, []string{
				"warning: the clones take 530 B, MAX_SIZE is 400 B: 130 B too much", `warning: volume "vwork" has 230 B written to workspace u, 115 B of it`,
			}},
			{"the disk is full", 230, 50, []string{
				"warning: 50 B and 0 inodes of 1000 B and 0 are free, MIN_FREE is 10%: 50 B too much, and nothing more can be evicted",
				`warning: volume "vwork" has 230 B written to workspace u, 0 B of it since the last sweep: it holds the disk below MIN_FREE=10%, and eviction can't help`,
			}},
			{"still", 230, 50, nil},
			{"it has room", 60, 500, []string{"cleared: 50 B and 0", "cleared: the clones take", "cleared: volume", "cleared: volume"}},
		} {
			upper(step.upper, step.free)
			if _, err := j.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			events := j.Events()[seen:]
			seen += len(events)
			ok := len(events) == len(step.want)
			for i := 0; ok && i < len(events); i++ {
				ok = strings.HasPrefix(fmt.Sprint(events[i].Type, ": ", events[i].Text), step.want[i])
			}
			if !ok {
				t.Errorf("%s: got %+v, want %q", step.name, events, step.want)
			}
			if step.name == "still" {
				all := j.Stats().Findings
				of := slices.DeleteFunc(j.Findings(), func(f Finding) bool { return f.Volume != "vwork" })
				if len(all) != 5 || len(of) != 2 || of[0].Size.Bytes != 230 || of[0].Since.IsZero() {
					t.Errorf("of the volume: %+v; of all: %+v", of, all)
				}
			}
		}
		if left := j.Findings(); len(left) != 1 {
			t.Errorf("not cleared: %+v", left)
		}
	})
}

// TestEventsAreBounded: the figures are not.
func TestEventsAreBounded(t *testing.T) {
	j := &Janitor{}
	kinds := []Kind{Discard, Cache}
	for i := range eventsKept + 10 {
		j.events.add(Event{Type: Evicted, Kind: &kinds[i%2], Reason: Expired, Text: fmt.Sprint(i), Size: disk.Size{Bytes: 2, Inodes: 1}})
	}
	events := j.Events()
	if len(events) != eventsKept || events[0].Text != "10" || events[eventsKept-1].Text != fmt.Sprint(eventsKept+9) {
		t.Errorf("%d events from %s to %s", len(events), events[0].Text, events[len(events)-1].Text)
	}
	want := []Count{
		{Type: Evicted, Kind: &kinds[0], Reason: Expired, Times: 505, Size: disk.Size{Bytes: 1010, Inodes: 505}},
		{Type: Evicted, Kind: &kinds[1], Reason: Expired, Times: 505, Size: disk.Size{Bytes: 1010, Inodes: 505}},
	}
	if got := j.Stats().Counts; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
