package janitor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/helmdeck/repos/internal/disk"
)

// drawInventory draws up to about 10 clones of up to three subjects.
func drawInventory(t *rapid.T) Inventory {
	sizes := rapid.Custom(func(t *rapid.T) disk.Size {
		return disk.Size{Bytes: rapid.Int64Range(0, 50).Draw(t, "bytes"), Inodes: rapid.Int64Range(0, 50).Draw(t, "inodes")}
	})
	// Few ages, so that ties occur. Some are in the future or the far past.
	used := rapid.Map(rapid.SampledFrom([]time.Duration{
		-400 * day, -time.Minute, 0, time.Second, time.Minute, 6 * time.Minute, time.Hour, 2 * time.Hour, 25 * time.Hour, 47 * time.Hour,
		3 * day, 6 * day, 8 * day, 400 * day,
	}), func(d time.Duration) int64 { return Stamp(now.Add(-d)) })
	held := rapid.Map(rapid.IntRange(0, 20), func(n int) Hold { return max(Hold(n)-14, Free) % JustMade })
	inv := Inventory{
		Now: now, Trash: sizes.Draw(t, "trash"), Own: sizes.Draw(t, "own"),
		Space: disk.Space{
			Total: disk.Size{Bytes: rapid.Int64Range(1, 2000).Draw(t, "total"), Inodes: rapid.SampledFrom([]int64{0, 1000}).Draw(t, "total inodes")},
			Free:  disk.Size{Bytes: rapid.Int64Range(0, 300).Draw(t, "free"), Inodes: rapid.Int64Range(0, 300).Draw(t, "free inodes")},
		},
	}
	if rapid.Bool().Draw(t, "own limit") {
		inv.SubjectMaxSize = map[string]int64{"b": rapid.SampledFrom([]int64{0, 50, 200}).Draw(t, "max of b")}
	}
	for i := range rapid.IntRange(0, 10).Draw(t, "clones") {
		subject := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "subject")
		c := Clone{
			Key: fmt.Sprintf("%s/%d", subject, i), Subject: subject, Made: used.Draw(t, "made"), Mounted: rapid.Bool().Draw(t, "mounted"),
			Use: use(held.Draw(t, "held")), Size: sizes.Draw(t, "size"),
		}
		if c.Mounted {
			c.Used = used.Draw(t, "used")
		}
		for n := range rapid.IntRange(0, 6).Draw(t, "parts") {
			c.Parts = append(c.Parts, Part{
				ID: fmt.Sprint(n), Kind: rapid.SampledFrom([]Kind{Checkpoint, Tree, GitLayer, Warm, Cache, Upper}).Draw(t, "kind"),
				Used: used.Draw(t, "used"), Size: sizes.Draw(t, "size"), Use: use(held.Draw(t, "held")), Needed: rapid.Bool().Draw(t, "needed"),
			})
		}
		inv.Clones = append(inv.Clones, c)
	}
	return inv
}

// maxOf returns the limit of a subject.
func maxOf(inv Inventory, lim Limits, subject string) int64 {
	if own, ok := inv.SubjectMaxSize[subject]; ok {
		return own
	}
	return lim.SubjectMaxSize
}

// budgetOf returns what MAX_SIZE leaves for clones; 0 for no limit.
func budgetOf(inv Inventory, lim Limits) int64 {
	if lim.MaxSize == 0 {
		return 0
	}
	return max(lim.MaxSize-inv.Own.Bytes, 1)
}

func drawLimits(t *rapid.T) Limits {
	limit := rapid.SampledFrom([]int64{0, 1, 50, 100, 300})
	l := Limits{
		TTL: rapid.SampledFrom([]time.Duration{0, 7 * day}).Draw(t, "ttl"), CheckpointTTL: rapid.SampledFrom([]time.Duration{0, day}).Draw(t, "checkpoint ttl"),
		SubjectMaxSize: limit.Draw(t, "subject max"), MaxSize: limit.Draw(t, "max"),
		MinFree: rapid.SampledFrom([]float64{0, .05, .3, 1}).Draw(t, "min free"), Grace: 5 * time.Minute,
	}
	l.Room = disk.Size{Bytes: limit.Draw(t, "room"), Inodes: limit.Draw(t, "room for inodes")}
	return l
}

// apply returns the inventory after a plan's evictions. It fails if an eviction names an unknown
// clone or part.
func apply(t *rapid.T, inv Inventory, plan Plan) Inventory {
	clones := make(map[string]*Clone)
	for _, c := range inv.Clones {
		c.Parts = slices.Clone(c.Parts)
		clones[c.Key] = &c
	}
	for _, e := range plan.Evictions {
		c := clones[e.Clone]
		if c == nil || c.Subject != e.Subject {
			t.Fatalf("%+v: no such clone", e)
		}
		var freed disk.Size
		if e.Kind == WholeClone {
			freed = c.Size
			for _, p := range c.Parts {
				freed = freed.Add(p.Size)
			}
			delete(clones, e.Clone)
		} else {
			i := slices.IndexFunc(c.Parts, func(p Part) bool { return p.ID == e.ID && p.Kind == e.Kind })
			if i < 0 {
				t.Fatalf("%+v: no such part", e)
			}
			freed = c.Parts[i].Size
			c.Parts = slices.Delete(c.Parts, i, i+1)
		}
		if freed != e.Size {
			t.Fatalf("%+v frees %v", e, freed)
		}
		inv.Trash = inv.Trash.Add(freed)
	}
	inv.Clones = nil
	for _, key := range slices.Sorted(maps.Keys(clones)) {
		inv.Clones = append(inv.Clones, *clones[key])
	}
	return inv
}

// TestNothingHeldIsPlanned checks that no limits evict anything that is held.
func TestNothingHeldIsPlanned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		plan := Decide(inv, lim)
		gone := make(map[string]bool)
		for _, e := range plan.Evictions {
			for _, c := range inv.Clones {
				if c.Key != e.Clone {
					continue
				}
				for _, p := range c.Parts {
					switch {
					case e.Kind == WholeClone && p.hold() != Free && p.hold() != Pinned && p.hold() != Failed:
						t.Errorf("%+v evicts a part that is held: %+v", e, p)
					case e.Kind == WholeClone && p.Kind == Upper:
						t.Errorf("%+v evicts a workspace", e)
					case e.Kind == WholeClone && p.Kind == Checkpoint && !gone[c.Key+"/"+p.ID]:
						t.Errorf("%+v evicts a checkpoint without an eviction of its own", e)
					case e.ID == p.ID && (p.hold() != Free || p.Kind == Upper || p.Needed && (p.Kind == Tree || p.Kind == GitLayer)):
						t.Errorf("%+v evicts the part %+v", e, p)
					case e.ID == p.ID && (p.Kind == Warm || p.Kind == Cache) && c.ownHold() != Free:
						t.Errorf("%+v evicts a part of a clone that is held: %v", e, c.ownHold())
					}
				}
				if e.Kind == WholeClone && c.ownHold() != Free {
					t.Errorf("%+v evicts a clone that is held: %v", e, c.ownHold())
				}
			}
			gone[e.Clone+"/"+e.ID] = true
		}
	})
}

// TestEveryReasonIsTrue checks that expired parts are old enough, and that a limit is
// exceeded before each eviction for it.
func TestEveryReasonIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		for i, plan := 0, Decide(inv, lim); i < len(plan.Evictions); i++ {
			e := plan.Evictions[i]
			before := apply(t, inv, Plan{Evictions: plan.Evictions[:i]})
			var ok bool
			switch e.Reason {
			case Expired:
				ok = e.Kind == Checkpoint && e.Unused >= lim.CheckpointTTL
			case TTL:
				ok = e.Kind == WholeClone && lim.TTL > 0 && e.Unused >= lim.TTL
			case Unneeded:
				ok = (e.Kind == Tree || e.Kind == GitLayer) && e.Unused >= lim.TTL
			case SubjectMaxSize: // after an earlier eviction, the lower mark counts
				most := maxOf(inv, lim, e.Subject)
				ok = most > 0 && total(before, e.Subject) > most-most/band
			case MaxSize:
				most := budgetOf(inv, lim)
				ok = most > 0 && total(before, "") > most-most/band
			case MinFree:
				ok = lim.MinFree > 0 && ofFree(before.Space, before.Space.Free.Add(before.Trash), lim.MinFree).above()
			case NoSpace:
				ok = ofRoom(before.Space, before.Space.Free.Add(before.Trash), lim.Room).above()
			}
			if !ok {
				t.Fatalf("the reason of %+v is not true of %+v", e, before)
			}
		}
	})
}

// total returns the size of a subject, or of all if subject is empty, in bytes.
func total(inv Inventory, subject string) (n int64) {
	for _, c := range inv.Clones {
		if subject == "" || c.Subject == subject {
			n += c.Size.Bytes
			for _, p := range c.Parts {
				n += p.Size.Bytes
			}
		}
	}
	return n
}

// TestLimitsHold checks that limits hold after a plan, or that nothing more can be evicted
// and Missing says how much is missing. A second plan then evicts only late parts.
func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		plan := Decide(inv, lim)
		after := apply(t, inv, plan)
		missing := make(map[Reason]bool)
		for _, m := range plan.Missing {
			missing[m.Reason] = true
			if m.Size.Bytes <= 0 && m.Size.Inodes <= 0 {
				t.Errorf("nothing is missing: %+v", m)
			}
		}
		free := after.Space.Free.Add(after.Trash)
		if over := lim.MinFree > 0 && ofFree(after.Space, free, lim.MinFree).over(); over != missing[MinFree] {
			t.Errorf("MIN_FREE exceeded: %v; the plan says %v", over, missing[MinFree])
		}
		if over := ofRoom(after.Space, free, lim.Room).over(); over != missing[NoSpace] && lim.Room != (disk.Size{}) {
			t.Errorf("no room: %v; the plan says %v", over, missing[NoSpace])
		}
		counted := total(after, "")
		for _, c := range after.Clones {
			if isException(c, budgetOf(inv, lim)) {
				counted -= held(c)
			}
		}
		if most := budgetOf(inv, lim); most > 0 && counted > most && !missing[MaxSize] {
			t.Errorf("MAX_SIZE is exceeded with %d bytes, but the plan does not say so", counted)
		}
		for _, c := range after.Clones {
			if idle := clean(c); missing[MinFree] && idle {
				t.Errorf("%+v could be evicted", c)
			} else if missing[MaxSize] && idle && (c.Mounted || since(c.Made) >= lim.Grace) && !isException(c, budgetOf(inv, lim)) {
				t.Errorf("%+v could be evicted", c)
			}
		}
		if again := Decide(after, lim); len(again.Evictions) > 0 && plan.Late == 0 {
			t.Errorf("a second plan evicts more: %+v", again.Evictions)
		}
	})
}

// since returns how long ago a time was, 0 for the future.
func since(at int64) time.Duration { return time.Duration(max(Stamp(now)-at, 0)) * time.Second }

// core returns the size of the data that every mount of a clone needs, in bytes.
func core(c Clone) int64 {
	n := c.Size.Bytes
	for _, p := range c.Parts {
		if p.Needed && (p.Kind == Tree || p.Kind == GitLayer) {
			n += p.Size.Bytes
		}
	}
	return n
}

// isException reports whether a clone exceeds a limit on its own, and is in use or
// was just used or made.
func isException(c Clone, limit int64) bool {
	idle := c.ownHold() == Free && !slices.ContainsFunc(c.Parts, func(p Part) bool {
		return p.Kind == Upper || p.hold() != Free && (p.Kind == Checkpoint || p.hold() != Pinned && p.hold() != Failed)
	})
	return limit > 0 && core(c) > limit && (!idle || since(max(c.Used, c.Made)) < largeGrace)
}

// held returns the size of the parts that can't be evicted from a clone in use, in bytes.
func held(c Clone) int64 {
	n := c.Size.Bytes
	for _, p := range c.Parts {
		if goes := p.Kind == Checkpoint || !p.Needed && (p.Kind == Tree || p.Kind == GitLayer); !goes || p.hold() != Free {
			n += p.Size.Bytes
		}
	}
	return n
}

// atRest returns an inventory without anything in use, kept, or in its grace period. Checkpoints may
// need layers.
func atRest(inv Inventory, grace time.Duration) Inventory {
	latest := Stamp(inv.Now.Add(-grace))
	for i := range inv.Clones {
		c := &inv.Clones[i]
		c.Use, c.Made, c.Used = Use{}, min(c.Made, latest), min(c.Used, latest)
		c.Parts = slices.DeleteFunc(c.Parts, func(p Part) bool { return p.Kind == Upper })
		for n := range c.Parts {
			p := &c.Parts[n]
			if p.Used = min(p.Used, latest); !p.Use.Below || p.Kind == Checkpoint {
				p.Use = Use{}
			}
		}
	}
	return inv
}

// TestIdleClonesStayBelowLimit checks that a plan brings all clones, and those of each subject, below
// the limit if nothing is in use, kept, or in its grace period, however large a clone is.
func TestIdleClonesStayBelowLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lim := drawLimits(t)
		inv := atRest(drawInventory(t), lim.Grace)
		plan := Decide(inv, lim)
		after := apply(t, inv, plan)
		if n, most := total(after, ""), budgetOf(inv, lim); most > 0 && n > most {
			t.Errorf("%d are left, MAX_SIZE leaves %d", n, most)
		}
		for _, subject := range []string{"a", "b", "c"} {
			if n, most := total(after, subject), maxOf(inv, lim, subject); most > 0 && n > most {
				t.Errorf("%d are left of subject %s, its limit is %d", n, subject, most)
			}
		}
		for _, m := range plan.Missing {
			if m.Reason == MaxSize || m.Reason == SubjectMaxSize {
				t.Errorf("missing: %+v", m)
			}
		}
		for _, l := range plan.TooLarge {
			if slices.ContainsFunc(after.Clones, func(c Clone) bool { return c.Key == l.Clone }) {
				t.Errorf("%+v is still there", l)
			}
		}
	})
}

// TestLargeCloneInUseEvictsNoOther checks that the size of clones that exceed a limit on their
// own and are in use does not change the evictions from others.
func TestLargeCloneInUseEvictsNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		lim.TTL, lim.MinFree, lim.Room = 0, 0, disk.Size{} // these limits apply to all clones together
		inv.SubjectMaxSize = nil
		limit := &lim.MaxSize
		if rapid.Bool().Draw(t, "of a subject") {
			limit = &lim.SubjectMaxSize
		}
		lim.MaxSize, lim.SubjectMaxSize, *limit = 0, 0, max(lim.MaxSize, lim.SubjectMaxSize)
		larger := inv
		larger.Clones = slices.Clone(inv.Clones)
		for i := range larger.Clones {
			most := *limit
			if lim.MaxSize > 0 {
				most = budgetOf(inv, lim)
			}
			if c := &larger.Clones[i]; isException(*c, most) {
				c.Size.Bytes *= 10
				c.Parts = append(slices.Clone(c.Parts), Part{ID: "more", Kind: Upper, Use: Use{Leased: true}, Size: disk.Size{Bytes: 1000}},
					Part{ID: "more", Kind: Cache, Used: Stamp(inv.Now), Size: disk.Size{Bytes: 1000}})
				if c.Use.hold() == Free {
					c.Use.Leased = true
				}
			}
		}
		plan := func(inv Inventory) []Eviction {
			list := Decide(inv, lim).Evictions
			for i := range list {
				list[i].Text = "" // the text contains sums
			}
			return list
		}
		if got, want := plan(larger), plan(inv); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

// clean reports whether a clone has no checkpoint and nothing that is held.
func clean(c Clone) bool {
	return c.ownHold() == Free && !slices.ContainsFunc(c.Parts, func(p Part) bool {
		return p.Kind == Upper || p.Kind == Checkpoint || p.hold() != Free && p.hold() != Pinned && p.hold() != Failed
	})
}

// TestOrderDoesNotMatter shuffles the clones and their parts.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, lim := drawInventory(t), drawLimits(t)
		want := Decide(inv, lim)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		other := inv
		other.Clones = slices.Clone(inv.Clones)
		shuffle(r, other.Clones)
		for i := range other.Clones {
			other.Clones[i].Parts = slices.Clone(other.Clones[i].Parts)
			shuffle(r, other.Clones[i].Parts)
		}
		if got := Decide(other, lim); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func shuffle[T any](r *rand.Rand, list []T) {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
}
