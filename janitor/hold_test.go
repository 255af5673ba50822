package janitor

import (
	"testing"
	"time"
)

// TestHold checks what each use of a clone or a part means for its eviction.
func TestHold(t *testing.T) {
	t.Parallel()
	upper, checkpoint := Part{Kind: Upper, Use: Use{Leased: true}}, Part{Kind: Checkpoint}
	with := func(k Kind, u Use) Part { return Part{Kind: k, Use: u} }
	for _, tt := range []struct {
		name  string
		use   Use
		parts []Part
		want  Hold // of the clone
	}{
		{"nobody uses it", Use{}, nil, Free},
		{"a Mount waits for a fetch", Use{Attended: true, Working: true, Busy: true}, nil, Pending},
		{"a fetch for nobody", Use{Working: true, Busy: true}, nil, Working},
		{"busy for no known reason", Use{Busy: true}, nil, Pending},
		{"busy, and its eviction failed", Use{Busy: true, failed: true}, nil, Pending},
		{"busy because of a workspace", Use{Busy: true}, []Part{upper}, Leased},
		{"busy because of a checkpoint, which goes before it", Use{Busy: true}, []Part{checkpoint}, Free},
		{"its eviction failed", Use{failed: true}, nil, Failed},
		{"a kept workspace", Use{Busy: true}, []Part{with(Upper, Use{Kept: true})}, Kept},
		{"a kept workspace that a container has", Use{Busy: true}, []Part{with(Upper, Use{Kept: true, Leased: true})}, Leased},
		{"a workspace that has ended and is still used", Use{Busy: true}, []Part{with(Upper, Use{Ended: true, Leased: true, Kept: true})}, Busy},
		{"a workspace without a lease", Use{Busy: true}, []Part{with(Upper, Use{})}, Pending},
		{"a layer below a checkpoint goes with the clone", Use{Busy: true}, []Part{checkpoint, with(Tree, Use{Below: true})}, Free},
		{"a layer whose eviction failed goes with the clone", Use{}, []Part{with(Warm, Use{failed: true})}, Free},
		{"a checkpoint with a name", Use{Busy: true}, []Part{{Kind: Checkpoint, Named: true}, checkpoint}, HasNamed},
		{"a checkpoint with a name, and a container", Use{Busy: true}, []Part{{Kind: Checkpoint, Named: true}, upper}, Leased},
		{"a checkpoint whose eviction failed does not", Use{}, []Part{with(Checkpoint, Use{failed: true})}, Failed},
	} {
		c := Clone{Use: tt.use, Parts: tt.parts}
		if got := c.hold(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestLayersGoInOrder checks that a layer goes after those that stand on it, and the deepest layer of a cache first.
func TestLayersGoInOrder(t *testing.T) {
	t.Parallel()
	inv := Inventory{Now: now, Clones: []Clone{{Key: "t/a", Subject: "t", Mounted: true, Parts: []Part{
		{ID: "bottom", Kind: Tree, Used: 10}, {ID: "top", Kind: Tree, Used: 50, Below: []string{"middle", "bottom"}}, {ID: "middle", Kind: Tree, Used: 20, Below: []string{"bottom"}},
		{ID: "c0", Kind: Cache, Used: 60}, {ID: "c1", Kind: Cache, Used: 60, Depth: 1}, {ID: "c2", Kind: Cache, Used: 60, Depth: 2},
	}}}}
	inv.Clones[0].Used = Stamp(now)
	inv.Clones[0].Size.Bytes = 1
	for n := range inv.Clones[0].Parts {
		inv.Clones[0].Parts[n].Size.Bytes = 10
	}
	if got, want := ids(Decide(inv, Limits{CheckpointTTL: day, MaxSize: 5})), "top middle bottom c2 c1 c0"; got != want {
		t.Errorf("evicted in the order %s, want %s", got, want)
	}
}

// TestCheckpointsGoInOrder checks that one plan evicts a whole chain of checkpoints, each before those that it stands on, when
// the top is due, also if they ended in the same second.
func TestCheckpointsGoInOrder(t *testing.T) {
	t.Parallel()
	chain := func(top int64) Inventory {
		parts := []Part{
			{ID: "a", Used: 30}, {ID: "c", Used: top, Below: []string{"b", "d", "a"}},
			{ID: "d", Used: 30, Below: []string{"a"}}, {ID: "b", Used: 40, Below: []string{"d", "a"}}, {ID: "other", Used: 35},
		}
		for n := range parts {
			parts[n].Kind = Checkpoint
		}
		return Inventory{Now: time.Unix(1000, 0), Clones: []Clone{{Key: "t/a", Subject: "t", Mounted: true, Used: 1000, Parts: parts}}}
	}
	for _, tt := range []struct {
		top  int64
		want string
	}{{40, "other c b d a"}, {900, "other c b d a"}, {901, "other"}} {
		if got := ids(Decide(chain(tt.top), Limits{CheckpointTTL: 100 * time.Second})); got != tt.want {
			t.Errorf("the top ended at %d: evicted are %q, want %q", tt.top, got, tt.want)
		}
	}
}

// TestMergedCheckpoints: what a checkpoint has merged expires as any other, also while that was just merged, and goes after it
// when room is needed.
func TestMergedCheckpoints(t *testing.T) {
	t.Parallel()
	parts := []Part{
		{ID: "a", Used: 30}, {ID: "b", Used: 40, Below: []string{"a"}}, {ID: "c", Used: 50, Below: []string{"b", "a"}},
		{ID: "m", Used: 950, Merged: []string{"c", "b", "a"}}, {ID: "other", Used: 960},
	}
	for n := range parts {
		parts[n].Kind, parts[n].Size.Bytes = Checkpoint, 10
	}
	inv := Inventory{Now: time.Unix(1000, 0), Clones: []Clone{{Key: "t/a", Subject: "t", Mounted: true, Used: 1000, Parts: parts}}}
	for _, tt := range []struct {
		why  string
		lim  Limits
		want string
	}{
		{"expired", Limits{CheckpointTTL: 100 * time.Second}, "c b a"},
		{"for room", Limits{CheckpointTTL: day, MaxSize: 1}, "m c b a other"},
		{"both", Limits{CheckpointTTL: 100 * time.Second, MaxSize: 15}, "c b a m"},
	} {
		if got := ids(Decide(inv, tt.lim)); got != tt.want {
			t.Errorf("%s: evicted are %q, want %q", tt.why, got, tt.want)
		}
	}
}
