package janitor

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// TestFindings checks that findings are reported once per change.
func TestFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{WarnSize: 100, Limits: Limits{CheckpointTTL: day, MaxSize: 400, MinFree: .1}},
			"t/a 1h 300 leased; upper u 1h 90 leased vwork\n t/big 1h 450 leased")
		upper := func(n, free int64) {
			s.set(func() { s.inv.Clones[0].Parts[0].Size.Bytes, s.inv.Space.Free.Bytes = n, free })
		}
		seen := 0
		for _, step := range []struct {
			name        string
			upper, free int64
			want        []string // the new events
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
			t.Errorf("findings are left: %+v", left)
		}
	})
}

// TestLimitFindings checks that a workspace at its limit is a finding, which is told at 90 and 100 %, and evicts nothing.
func TestLimitFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day}}, "t/a 1h 300 leased; upper u 1h 90 leased vwork\n t/idle 1h 100")
		s.set(func() { s.inv.Clones[0].Parts[0].Limit = disk.Size{Bytes: 1000, Inodes: 100} })
		seen := 0
		for _, step := range []struct {
			bytes, inodes int64
			want          string // the new event
		}{
			{890, 10, ""},
			{899, 10, `warning: volume "vwork" has filled 90% of the limit of workspace u, 899 B of 1000 B and 10 of 100 inodes: what exceeds it fails in the container`},
			{990, 99, ""},
			{10, 100, `warning: volume "vwork" has filled 100%`},
			{950, 10, ""},
			{1000, 100, ""},
			{10, 10, `cleared: volume "vwork" has filled 100%`},
		} {
			s.set(func() { s.inv.Clones[0].Parts[0].Size = disk.Size{Bytes: step.bytes, Inodes: step.inodes} })
			if _, err := j.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, e := range j.Events()[seen:] {
				seen++
				got += fmt.Sprint(e.Type, ": ", e.Text)
				if e.Reason != WorkspaceLimit || e.ID != "u" || e.Volume != "vwork" || e.Size.Bytes != step.bytes && e.Type == Warning {
					t.Errorf("%+v", e)
				}
			}
			if !strings.HasPrefix(got, step.want) || (got == "") != (step.want == "") {
				t.Errorf("%d bytes, %d inodes: got %q, want %q", step.bytes, step.inodes, got, step.want)
			}
		}
		if got := s.attempts(); got != "" {
			t.Errorf("evicted %q", got)
		}
	})
}

// TestEvictionForSizeIsFinding checks that the eviction of a clone for its size is a
// finding for a day, also if the clone exists again.
func TestEvictionForSizeIsFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day, MaxSize: 400, Grace: 10 * time.Minute}}, "t/big 10s 450\n t/small 1h 300")
		const text = `the clone of https://host/t/big for subject "t" takes 450 B, which is more than MAX_SIZE=400 B on its own: ` +
			`it is evicted when nobody has used it for 1m0s, and its next mount clones again; ` +
			`raise MAX_SIZE, or make its volumes with filter=blob:none, depth or sparse`
		step := func(what, evicted, finding string, events int) {
			t.Helper()
			if _, err := j.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := s.attempts(); got != evicted {
				t.Errorf("%s: evicted %q, want %q", what, got, evicted)
			}
			var got string
			for _, f := range j.Findings() {
				got += f.Text
				if f.Clone != "t/big" || f.Reason != MaxSize || f.Size.Bytes != 450 {
					t.Errorf("%s: %+v", what, f)
				}
			}
			if got != finding {
				t.Errorf("%s: findings %q, want %q", what, got, finding)
			}
			if n := len(j.Events()); n != events {
				t.Errorf("%s: %d events, want %d: %+v", what, n, events, j.Events())
			}
		}
		clone := s.inv.Clones[0]
		step("just used", "", text, 1)
		time.Sleep(50 * time.Second)
		step("idle", "t/big", text, 2)
		for _, e := range j.Events()[1:] {
			if e.Type != Evicted || e.Text != text {
				t.Errorf("%+v", e)
			}
		}
		time.Sleep(time.Hour)
		step("gone", "", text, 2)
		clone.Size, clone.Used = disk.Size{}, Stamp(time.Now())
		s.set(func() { s.inv.Clones = append(s.inv.Clones, clone) })
		step("cloned again, not measured yet", "", text, 2)
		s.set(func() { s.inv.Clones[1].Size.Bytes = 450 })
		step("measured", "", text, 2)
		time.Sleep(time.Minute)
		step("idle again", "t/big", text, 3)
		time.Sleep(day)
		step("a day later", "", "", 4)
	})
}

// TestEventsAreBounded checks that events are bounded, and counts are not.
func TestEventsAreBounded(t *testing.T) {
	j := New(Config{})
	kinds := []Kind{Checkpoint, Cache}
	for i := range EventsKept + 10 {
		j.record(Event{Type: Evicted, Kind: &kinds[i%2], Reason: Expired, Text: fmt.Sprint(i), Size: disk.Size{Bytes: 2, Inodes: 1}})
	}
	events := j.Events()
	if len(events) != EventsKept || events[0].Text != "10" || events[EventsKept-1].Text != fmt.Sprint(EventsKept+9) {
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

// TestEventsAfter checks that the numbers of events grow by one, also after those of an earlier
// process, and that a reader learns of the next event.
func TestEventsAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := New(Config{})
		first.record(Event{Text: "0"})
		first.record(Event{Text: "1"})
		old, _ := first.EventsAfter(0)
		time.Sleep(time.Millisecond)
		j := New(Config{})
		after, more := j.EventsAfter(old[1].Seq)
		if len(after) != 0 || old[1].Seq != old[0].Seq+1 {
			t.Errorf("before the first event: %+v; of the process before: %+v", after, old)
		}
		for i := range EventsKept + 2 {
			select {
			case <-more:
				t.Fatalf("%d: more is closed", i)
			default:
			}
			j.record(Event{Text: fmt.Sprint(i)})
			<-more
			seq := old[1].Seq
			if len(after) > 0 {
				seq = after[0].Seq
			}
			if after, more = j.EventsAfter(seq); len(after) != 1 || after[0].Text != fmt.Sprint(i) || i > 0 && after[0].Seq != seq+1 || after[0].Seq <= seq {
				t.Fatalf("%d: %+v after %d", i, after, seq)
			}
		}
		if all, _ := j.EventsAfter(old[1].Seq); len(all) != EventsKept || all[0].Text != "2" {
			t.Errorf("%d events from %s", len(all), all[0].Text)
		}
	})
}

// TestEarlierEvents checks that the events of an earlier process come before the new ones, with a mark
// between them, also if the clock was put back, and that each new one is passed on.
func TestEarlierEvents(t *testing.T) {
	kind := Cache
	earlier := []Event{{Seq: 7, Type: Evicted, Kind: &kind, Text: "old"}, {Seq: time.Now().Add(day).UnixMicro(), Type: Warning, Text: "newer"}}
	var passed []Event
	j := New(Config{Earlier: earlier, Recorded: func(e Event) { passed = append(passed, e) }})
	j.Note(Event{Type: Pushed, Text: "new"})
	events := j.Events()
	if len(events) != 4 || !reflect.DeepEqual(events[:2], earlier) || events[2].Type != Started || events[2].Seq <= earlier[1].Seq || events[3].Text != "new" {
		t.Errorf("got %+v", events)
	}
	if !reflect.DeepEqual(passed, events[2:]) {
		t.Errorf("passed on: %+v, want %+v", passed, events[2:])
	}
	if after, _ := j.EventsAfter(earlier[1].Seq); len(after) != 2 || after[1].Seq != after[0].Seq+1 {
		t.Errorf("after the earlier ones: %+v", after)
	}
	many := make([]Event, 2*EventsKept)
	for i := range many {
		many[i] = Event{Seq: int64(i)}
	}
	if got := New(Config{Earlier: many}).Events(); len(got) != EventsKept || got[EventsKept-1].Type != Started {
		t.Errorf("%d events, the last is %+v", len(got), got[len(got)-1])
	}
}

// TestParseKind checks that a kind is read as it is written.
func TestParseKind(t *testing.T) {
	for _, k := range EvictableKinds() {
		if got, ok := ParseKind(k.String()); !ok || got != k {
			t.Errorf("%s: got %s, %t", k, got, ok)
		}
	}
	if _, ok := ParseKind("goat"); ok {
		t.Error("an unknown kind is one")
	}
}
