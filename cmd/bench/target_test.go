package main

import (
	"strings"
	"testing"
)

// put adds a series to the report.
func (r *report) put(name string, files int, u unit, against []string, values ...float64) {
	s := series{Name: name, Files: files, Unit: u, Against: against}
	for _, v := range values {
		s.add(v)
	}
	r.Rows = append(r.Rows, s)
}

func TestTargets(t *testing.T) {
	for _, test := range []struct {
		name string
		put  func(r *report)
		want string // all targets
	}{
		{"no rows", func(*report) {}, ""},
		{"other numbers of files", func(r *report) {
			r.put(warmMount, smallFiles, ms, nil, 1)
			r.put(lsRemote, smallFiles, ms, nil, 1)
		}, ""},
		{"a ratio at its limit", func(r *report) {
			r.put(warmMount, targetFiles, ms, nil, 15)
			r.put(lsRemote, targetFiles, ms, nil, 10)
		}, "met      warm Mount / git ls-remote of the same ref: 1.50x, at most 1.50x (15.0 ms / 10.0 ms)"},
		{"a ratio above it", func(r *report) {
			r.put(dockerWarm, targetFiles, ms, nil, 250)
			r.put(dockerEmpty, targetFiles, ms, nil, 200)
		}, "NOT MET  docker run, warm repository / empty local volume: 1.25x, at most 1.20x (250 ms / 200 ms)"},
		{"a mount that grows", func(r *report) {
			r.put(smallMount, targetFiles, ms, nil, 10)
			r.put(warmMount, targetFiles, ms, nil, 14)
		}, "NOT MET  warm Mount at 100,000 files / at 1,000: 1.40x, at most 1.30x (14.0 ms / 10.0 ms)"},
		{"at least", func(r *report) {
			r.put(warmMount, targetFiles, ms, nil, 15)
			r.put(freshClone, targetFiles, ms, nil, 1500)
			r.put(dirtyRow(targetDirty), targetFiles, ms, nil, 150)
		}, "NOT MET  in-place reset of 50,000 dirty files / warm Mount: 10x, at least 20x (150 ms / 15.0 ms)\n" +
			"met      git clone / warm Mount: 100x, at least 100x (1.50 s / 15.0 ms)"},
		{"a value is the median", func(r *report) {
			r.put(unmountRow(targetDirty), targetFiles, ms, nil, 1, 12, 2)
		}, "met      Unmount with 50,000 dirty files: 2.00 ms, at most 5.00 ms (max of 3: 12.0 ms)"},
		{"round trips", func(r *report) {
			r.put(tripsRow(warmMount), targetFiles, roundTrips, nil, 1.25, 3, -0.5)
		}, "NOT MET  30 ms away: warm Mount: 1.25 round trips, at most 1.20 round trips (max of 3: 3.00 round trips)"},
		{"a count is the largest", func(r *report) {
			r.put(pushedFetches(targetCrowd), targetFiles, count, nil, 1, 1, 2)
		}, "NOT MET  64 Mounts at once after a push: fetches: 2, at most 1 (max of 3)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := new(report)
			test.put(r)
			var got []string
			for _, target := range targets(r) {
				got = append(got, target.String())
			}
			if text := strings.Join(got, "\n"); text != test.want {
				t.Errorf("got\n%s\nwant\n%s", text, test.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	r := &report{Targets: []target{{Met: true}, {}, {Met: true}}}
	if got, want := r.verdict(), "2 of 3 targets met; "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q at its beginning", got, want)
	}
	r.Targets = make([]target, len(goals))
	if got := r.verdict(); strings.Contains(got, ";") {
		t.Errorf("got %q, want no missing targets", got)
	}
}
