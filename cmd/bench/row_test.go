package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 9, 2}, 3},
	} {
		given := slices.Clone(test.values)
		if got := median(test.values); got != test.want {
			t.Errorf("median(%v) = %v, want %v", given, got, test.want)
		}
		if !slices.Equal(test.values, given) {
			t.Errorf("median sorted its argument: %v was %v", test.values, given)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, test := range []struct {
		unit  unit
		value float64
		want  string
	}{
		{ms, 0.1234, "0.12 ms"},
		{ms, 12.34, "12.3 ms"},
		{ms, 999.6, "1000 ms"},
		{ms, 1234, "1.23 s"},
		{mib, 64, "64.0 MiB"},
		{mib, 6348.8, "6.2 GiB"},
		{count, 0, "0"},
		{count, 1000000, "1000000"},
	} {
		if got := test.unit.format(test.value); got != test.want {
			t.Errorf("%v %s is written %q, want %q", test.value, test.unit, got, test.want)
		}
	}
}

// bench measures a group whose rows need neither the program nor an engine.
func bench(t *testing.T, g group) (*report, error) {
	t.Helper()
	g.bare = true
	p := &place{column: column{files: 7}, root: workDir(t)}
	r := new(report)
	return r, g.measure(t.Context(), p, r, io.Discard)
}

// note returns a row that records when it is measured. Its value is the number of the round.
func note(order *[]string, name string) row {
	return row{name: name, unit: ms, sample: func(_ context.Context, _ *scene, i int) (float64, error) {
		*order = append(*order, name)
		return float64(i + 1), nil
	}}
}

func TestGroupOrder(t *testing.T) {
	for _, test := range []struct {
		name string
		g    group
		want []string
	}{
		{"in turns", group{rounds: 3}, []string{"prepare", "a", "b", "a", "b", "a", "b"}},
		{"serial", group{rounds: 2, serial: true}, []string{"prepare", "a", "a", "b", "b"}},
		{"fresh", group{rounds: 2, fresh: true}, []string{"prepare", "a", "b", "prepare", "a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var order []string
			g := test.g
			g.prepare = func(context.Context, *scene) error { order = append(order, "prepare"); return nil }
			g.rows = []row{note(&order, "a"), note(&order, "b")}
			r, err := bench(t, g)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(order, test.want) {
				t.Errorf("order %v, want %v", order, test.want)
			}
			for _, name := range []string{"a", "b"} {
				s := r.row(name, column{files: 7})
				if s == nil || len(s.Samples) != g.rounds || s.Samples[0] != 1 || s.max() != float64(g.rounds) || s.Unit != ms {
					t.Errorf("series %q: %+v, want the rounds", name, s)
				}
			}
		})
	}
}

func TestRowOfEverySecondRound(t *testing.T) {
	for _, test := range []struct {
		serial bool
		want   []step
	}{
		{false, []step{{0, 0}, {0, 1}, {1, 0}, {2, 0}, {2, 1}}},
		{true, []step{{0, 0}, {1, 0}, {2, 0}, {0, 1}, {2, 1}}},
	} {
		g := group{rounds: 3, serial: test.serial, rows: []row{{}, {every: 2}}}
		if got := g.order(); !slices.Equal(got, test.want) {
			t.Errorf("serial %v: order %v, want %v", test.serial, got, test.want)
		}
	}
}

func TestGroupKeepsWhatWasMeasured(t *testing.T) {
	failure := errors.New("no more")
	for _, test := range []struct {
		end  error // the error of row b in its second round
		want map[string]int
		err  error
	}{
		{failure, map[string]int{"a": 2, "b": 1, "c": 1}, failure},
		{errEnough, map[string]int{"a": 3, "b": 1, "c": 3}, nil},
	} {
		var order []string
		b := row{name: "b", sample: func(_ context.Context, _ *scene, i int) (float64, error) {
			if i > 0 {
				return 0, test.end
			}
			return 1, nil
		}}
		r, err := bench(t, group{rounds: 3, rows: []row{note(&order, "a"), b, note(&order, "c")}})
		if !errors.Is(err, test.err) {
			t.Errorf("after %v: error %v, want %v", test.end, err, test.err)
		}
		for name, want := range test.want {
			if s := r.row(name, column{files: 7}); s == nil || len(s.Samples) != want {
				t.Errorf("after %v, series %q: %+v, want %d samples", test.end, name, s, want)
			}
		}
	}
}

func TestTally(t *testing.T) {
	const info, refs, fetch = gitserver.Info, gitserver.LsRefs, gitserver.Fetch
	for _, test := range []struct {
		kinds []gitserver.Kind
		want  asked
	}{
		{nil, asked{}},
		{[]gitserver.Kind{info, refs}, asked{asks: 1}},
		{[]gitserver.Kind{info, refs, info, refs, fetch}, asked{asks: 2, fetches: 1}},
		{[]gitserver.Kind{info, refs, info, refs, fetch, fetch}, asked{asks: 2, fetches: 1}},
		{[]gitserver.Kind{info, info, refs, refs, fetch, refs, fetch}, asked{asks: 3, fetches: 2}},
	} {
		var requests []gitserver.Request
		for _, k := range test.kinds {
			requests = append(requests, gitserver.Request{Kind: k})
		}
		if got := tally(requests); got != test.want {
			t.Errorf("%q: got %+v, want %+v", test.kinds, got, test.want)
		}
	}
}
