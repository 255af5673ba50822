package remote

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
)

// packed returns refs of a store: branches and tags, and one ref that is neither.
func packed(heads, tagged int) []gitref.PackedRef {
	refs := []gitref.PackedRef{{Name: "refs/helmdeck/HEAD", ID: "1"}}
	for i := range heads {
		refs = append(refs, gitref.PackedRef{Name: fmt.Sprint(branches, i), ID: "2"})
	}
	for i := range tagged {
		refs = append(refs, gitref.PackedRef{Name: fmt.Sprint(tags, i), ID: "3"})
	}
	return refs
}

// A question asks for those kinds of refs that are few.
func TestAsksFor(t *testing.T) {
	for _, tt := range []struct {
		heads, tagged int
		want          []string
	}{
		{0, 0, []string{branches, tags}},
		{100, 100, []string{branches, tags}},
		{101, 100, []string{tags}},
		{5000, 200, []string{tags}},
		{1, 200, []string{tags}},
		{1, 201, nil},
		{300, 300, nil},
	} {
		if got := asksFor(meta.Store{Sums: sumsOf(packed(tt.heads, tt.tagged))}); !slices.Equal(got, tt.want) {
			t.Errorf("%d branches and %d tags: %q, want %q", tt.heads, tt.tagged, got, tt.want)
		}
	}
}

// Sums are equal if the refs are, in any order, and each kind is compared by itself.
func TestSums(t *testing.T) {
	refs := packed(3, 2)
	same := slices.Clone(refs)
	slices.Reverse(same)
	moved, renamed := slices.Clone(refs), slices.Clone(refs)
	moved[1].ID, renamed[2].Name = "4", branches+"x"
	store := sumsOf(refs)
	for _, tt := range []struct {
		name           string
		refs           []gitref.PackedRef
		branches, tags bool // equal
	}{
		{"same", same, true, true},
		{"another ref", append(packed(3, 2), gitref.PackedRef{Name: "refs/pull/1/head", ID: "5"}), true, true},
		{"a name that no volume can have", append(packed(3, 2), gitref.PackedRef{Name: branches + "\xff", ID: "5"}), true, true},
		{"moved", moved, false, true},
		{"renamed", renamed, false, true},
		{"one tag less", packed(3, 1), true, false},
		{"none", nil, false, false},
	} {
		got := sumsOf(tt.refs)
		if b, of := (sums{branches: got[branches]}).in(store), (sums{tags: got[tags]}).in(store); b != tt.branches || of != tt.tags || got.in(store) != (b && of) {
			t.Errorf("%s: branches equal: %v, tags equal: %v, both: %v", tt.name, b, of, got.in(store))
		}
	}
}

// A listing waits for the end of a pause, unless the clock was set back since.
func TestUntilListed(t *testing.T) {
	now := time.Now()
	m := &Remote{config: Config{Now: func() time.Time { return now }, AskTimeout: 20 * time.Second}}
	for _, tt := range []struct {
		next time.Duration
		want bool
	}{{-time.Hour, false}, {0, false}, {time.Second, true}, {200 * time.Second, true}, {time.Hour, false}} {
		if got := m.untilListed(others{next: now.Add(tt.next)}) > 0; got != tt.want {
			t.Errorf("in %v: waits %v, want %v", tt.next, got, tt.want)
		}
	}
}
