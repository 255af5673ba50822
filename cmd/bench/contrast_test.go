package main

import (
	"slices"
	"strings"
	"testing"
)

// nine repeats a value for each of nine turns.
func nine(v float64) []float64 { return slices.Repeat([]float64{v}, 9) }

func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name                  string
		this, before, control []float64
		want                  verdict
		ratio, noise          float64
		slower                int
	}{
		{"the same", nine(30), nine(30), nine(30), held, 1, 1, 0},
		{"a tenth slower exactly", nine(11), nine(10), nine(10), held, 1.1, 1, 9},
		{"more than a tenth slower", nine(11.2), nine(10), nine(10), failed, 1.12, 1, 9},
		{"faster", nine(5), nine(10), nine(10), held, 0.5, 1, 0},
		{"a control that is off a little hides nothing", nine(11.2), nine(10), nine(10.9), failed, 1.12, 1.09, 9},
		{"slower, and the control is slow too", nine(12), nine(10), nine(12), noisy, 1.2, 1.2, 9},
		{"slower, and the control is fast", nine(12), nine(10), nine(8), noisy, 1.2, 0.8, 9},
		{"not slower, but it could not be seen", nine(10), nine(10), nine(12), noisy, 1, 1.2, 0},
		{"too slow for the noise", nine(20), nine(10), nine(12), failed, 2, 1.2, 9},
		{"too slow for a control that is fast", nine(20), nine(10), nine(8), failed, 2, 0.8, 9},
		{"short", nine(1.9), nine(0.5), nine(0.5), unjudged, 3.8, 1, 9},
		{"two milliseconds are not more than two", nine(2), nine(1), nine(1), unjudged, 2, 1, 9},
		{"once short, now long", nine(2.1), nine(0.5), nine(0.5), failed, 4.2, 1, 9},
		{"once long, now short", nine(0.5), nine(5), nine(5), held, 0.1, 1, 0},
		{"nothing before", nine(5), nine(0.001), nine(0.001), failed, 5000, 1, 9}, // the clock's resolution
		{"nothing measured", nil, nil, nil, unmeasured, 0, 0, 0},
		{
			"a machine that gets slower from turn to turn",
			[]float64{10, 12, 14, 16, 18, 20, 22, 24, 26}, []float64{10, 12, 14, 16, 18, 20, 22, 24, 26}, []float64{10, 12, 14, 16, 18, 20, 22, 24, 26},
			held, 1, 1, 0,
		},
		{
			"four turns of nine are bad",
			[]float64{10, 90, 10, 90, 10, 90, 10, 90, 10}, nine(10), nine(10), held, 1, 1, 4,
		},
		{
			"five turns of nine are bad",
			[]float64{90, 10, 90, 10, 90, 10, 90, 10, 90}, nine(10), nine(10), failed, 9, 1, 5,
		},
	} {
		c := contrast{This: test.this, Before: test.before, Control: test.control}
		c.judge()
		near := func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
		if c.Verdict != test.want || !near(c.Ratio, test.ratio) || !near(c.Noise, test.noise) || c.Slower != test.slower {
			t.Errorf("%s: %s, %v, noise %v, slower in %d; want %s, %v, %v, %d", test.name,
				c.Verdict, c.Ratio, c.Noise, c.Slower, test.want, test.ratio, test.noise, test.slower)
		}
	}
}

func TestTurnsAreBalanced(t *testing.T) {
	place := map[[2]int]int{} // build, place
	after := map[[2]int]int{} // build, the one after it
	for i := range 6 {
		order := turn(i)
		for at, k := range order {
			place[[2]int{k, at}]++
			if at > 0 {
				after[[2]int{order[at-1], k}]++
			}
		}
		if i%3 == 2 {
			for k := range 3 {
				for at := range 3 {
					if got, want := place[[2]int{k, at}], (i+1)/3; got != want {
						t.Errorf("after %d turns build %d was %d times at place %d, want %d", i+1, k, got, at, want)
					}
				}
			}
		}
	}
	for a := range 3 {
		for b := range 3 {
			if got := after[[2]int{a, b}]; a != b && got != 2 {
				t.Errorf("build %d was %d times after build %d, want 2", b, got, a)
			}
		}
	}
}

func TestSummaryHidesNothing(t *testing.T) {
	got := summary([]contrast{{Verdict: held}, {Verdict: failed}, {Verdict: noisy}, {Verdict: noisy}, {Verdict: unjudged}, {Verdict: unmeasured}})
	for _, want := range []string{"6 rows: 1 more than 10% slower, 1 ok, 1 under 2 ms", "NOISY: 2 rows", "NOT MEASURED: 1 rows"} {
		if !strings.Contains(got, want) {
			t.Errorf("got %q, want %q in it", got, want)
		}
	}
	if got := summary([]contrast{{Verdict: held}}); strings.Contains(got, "NO") {
		t.Errorf("got %q of a row that held", got)
	}
}
