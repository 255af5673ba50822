package janitor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestChoice compares choices with a sorted list of all keys.
func TestChoice(t *testing.T) {
	var keys []string
	for range 5000 { // some twice
		keys = append(keys, fmt.Sprintf("%c/%04d", 'a'+rand.N(4), rand.N(3000)))
	}
	all := slices.Compact(slices.Sorted(slices.Values(keys)))
	for _, prefix := range []string{"", "b/", "none/"} {
		want := slices.DeleteFunc(slices.Clone(all), func(key string) bool { return !strings.HasPrefix(key, prefix) })
		for _, limit := range []int{0, 1, 2, 7, 100, 1001, len(all), 10_000} {
			c := Choice{Match: func(key string) bool { return strings.HasPrefix(key, prefix) }, Limit: limit}
			want := want
			if limit > 0 {
				want = want[:min(limit, len(want))]
			}
			if got := c.Of(slices.Values(keys)); !slices.Equal(got, want) {
				t.Errorf("prefix %q, limit %d: got %d keys %.5q, want %d %.5q", prefix, limit, len(got), got, len(want), want)
			}
		}
	}
	if got := (Choice{}).Of(slices.Values(keys)); !slices.Equal(got, all) {
		t.Errorf("the zero Choice has %d keys, want %d", len(got), len(all))
	}
	if got := One(all[3]).Of(slices.Values(keys)); !slices.Equal(got, all[3:4]) {
		t.Errorf("one: got %q", got)
	}
}
