package main

import (
	"slices"
	"strings"
	"testing"
)

// nine repeats a value for each of nine turns.
func nine(v float64) []float64 { return slices.Repeat([]float64{v}, 9) }

func TestContrast(t *testing.T) {
	rising := []float64{10, 12, 14, 16, 18, 20, 22, 24, 26}
	for _, test := range []struct {
		name         string
		this, before []float64
		ratio        float64
		slower       bool
	}{
		{"the same", nine(30), nine(30), 1, false},
		{"a tenth slower exactly", nine(11), nine(10), 1.1, false},
		{"more than a tenth slower", nine(11.2), nine(10), 1.12, true},
		{"faster", nine(5), nine(10), 0.5, false},
		{"short", nine(1.9), nine(0.5), 3.8, false},
		{"two milliseconds are not more than two", nine(2), nine(1), 2, false},
		{"once short, now long", nine(2.1), nine(0.5), 4.2, true},
		{"nothing before", nine(5), nine(0.001), 5000, true}, // the clock's resolution
		{"nothing measured", nil, nil, 0, false},
		{"a machine that gets slower from turn to turn", rising, rising, 1, false},
		{"four turns of nine are bad", []float64{10, 90, 10, 90, 10, 90, 10, 90, 10}, nine(10), 1, false},
		{"five turns of nine are bad", []float64{90, 10, 90, 10, 90, 10, 90, 10, 90}, nine(10), 9, true},
	} {
		c := contrast{this: test.this, before: test.before}
		if got := c.ratio(); got-test.ratio > 1e-9 || test.ratio-got > 1e-9 || c.isSlower() != test.slower {
			t.Errorf("%s: %v, slower: %v; want %v, %v", test.name, got, c.isSlower(), test.ratio, test.slower)
		}
	}
}

// TestContrastForBenchstat checks the lines that benchstat reads.
func TestContrastForBenchstat(t *testing.T) {
	var b strings.Builder
	if err := (contrast{"warm Mount, 30 ms away", column{files: 1000}, []float64{1, 7.5}, []float64{1, 8}}).write(&b); err != nil {
		t.Fatal(err)
	}
	want := "build: before\nBenchmarkWarm_Mount,_30_ms_away/files=1000 1 8000000 ns/op\n" +
		"build: this\nBenchmarkWarm_Mount,_30_ms_away/files=1000 1 7500000 ns/op\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
