package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"
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

func TestGroupMeasuresInTurns(t *testing.T) {
	var order []string
	note := func(name string, took time.Duration) row {
		return row{name: name, sample: func(_ context.Context, i int) (time.Duration, error) {
			order = append(order, name)
			return took * time.Duration(i+1), nil
		}}
	}
	prepare := func(context.Context) error { order = append(order, "prepare"); return nil }
	r := new(report)
	g := group{n: 3, prepare: prepare, rows: []row{note("a", time.Millisecond), note("b", time.Second)}}
	if err := g.measure(t.Context(), 7, r, io.Discard); err != nil {
		t.Fatal(err)
	}
	if want := []string{"prepare", "a", "b", "a", "b", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	for name, want := range map[string][]float64{"a": {1, 2, 3}, "b": {1000, 2000, 3000}} {
		s := r.row(name, 7)
		if s == nil || !slices.Equal(s.Samples, want) || s.Median != want[1] || s.max() != want[2] || s.Unit != "ms" {
			t.Errorf("series %q: %+v, want samples %v", name, s, want)
		}
	}
}

func TestGroupKeepsWhatAnErrorCutsShort(t *testing.T) {
	failure := errors.New("no more")
	r := new(report)
	g := group{n: 3, rows: []row{
		{name: "a", sample: func(context.Context, int) (time.Duration, error) { return time.Second, nil }},
		{name: "b", sample: func(_ context.Context, i int) (time.Duration, error) {
			if i > 0 {
				return 0, failure
			}
			return time.Second, nil
		}},
		{name: "c", sample: func(_ context.Context, i int) (time.Duration, error) { return time.Second, nil }},
	}}
	if err := g.measure(t.Context(), 7, r, io.Discard); !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	for name, want := range map[string]int{"a": 2, "b": 1, "c": 1} {
		if s := r.row(name, 7); s == nil || len(s.Samples) != want {
			t.Errorf("series %q: %+v, want %d samples", name, s, want)
		}
	}
}
