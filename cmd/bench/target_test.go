package main

import (
	"strings"
	"testing"
	"time"
)

func TestTargets(t *testing.T) {
	// What a run measured, in ms.
	type measured struct {
		mount, ask, small float64
		unmounts          []float64
	}
	for _, test := range []struct {
		name   string
		m      measured
		want   []string // verdict of each target
		missed string   // in the run's error; empty for none
	}{
		{"nothing for the targets' number of files", measured{small: 10}, nil, ""},
		{"all met", measured{30, 10, 29, []float64{4, 10, 10}}, []string{"PASS", "PASS", "PASS (informative)"}, ""},
		{"slow mount", measured{31, 10, 30, []float64{1}}, []string{"FAIL", "PASS", "PASS (informative)"}, "3.10 x, limit 3"},
		{"slow unmount", measured{30, 10, 30, []float64{11, 12, 1}}, []string{"PASS", "FAIL", "PASS (informative)"}, "11.00 ms, limit 10"},
		{"one slow unmount", measured{30, 10, 30, []float64{1, 12, 1}}, []string{"PASS", "PASS", "PASS (informative)"}, ""},
		{"a mount that grows", measured{30, 10, 10, []float64{1}}, []string{"PASS", "PASS", "FAIL (informative)"}, ""},
		{"one size alone", measured{mount: 30, ask: 10, unmounts: []float64{1}}, []string{"PASS", "PASS"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := new(report)
			put := func(name string, files int, values ...float64) {
				s := series{Name: name, Files: files}
				for _, v := range values {
					if v > 0 {
						s.add(time.Duration(v * float64(time.Millisecond)))
					}
				}
				if len(s.Samples) > 0 {
					r.Rows = append(r.Rows, s)
				}
			}
			put(warmMount, smallFiles, test.m.small)
			put(warmMount, targetFiles, test.m.mount)
			put(lsRemote, targetFiles, test.m.ask)
			put(unmountRow(targetDirty), targetFiles, test.m.unmounts...)
			r.Targets = targets(r)
			if len(r.Targets) != len(test.want) {
				t.Fatalf("targets %v, want %q", r.Targets, test.want)
			}
			for i, want := range test.want {
				if got, _, _ := strings.Cut(r.Targets[i].String(), "  "); got != want {
					t.Errorf("%s\nwant %s", r.Targets[i], want)
				}
			}
			got := ""
			if err := r.missed(); err != nil {
				got = err.Error()
			}
			if got == "" != (test.missed == "") || !strings.Contains(got, test.missed) {
				t.Errorf("error %q, want %q in it", got, test.missed)
			}
		})
	}
}
