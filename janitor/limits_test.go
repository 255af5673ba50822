package janitor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// TestMarks checks when a limit is exceeded, and where eviction ends.
func TestMarks(t *testing.T) {
	tenth := func(total, free, totalInodes, freeInodes int64) excess {
		s := space(total, free, totalInodes, freeInodes)
		return ofFree(s, s.Free, .1)
	}
	room := func(need, inodes int64, s disk.Space) excess {
		return ofRoom(s, s.Free, disk.Size{Bytes: need, Inodes: inodes})
	}
	for _, tt := range []struct {
		name        string
		e           excess
		over, above bool
		missing     disk.Size
	}{
		{"far below a size", ofBytes(10, 100), false, false, disk.Size{}},
		{"at the mark of a size", ofBytes(90, 100), false, false, disk.Size{}},
		{"above the mark of a size", ofBytes(91, 100), false, true, disk.Size{}},
		{"at a size", ofBytes(100, 100), false, true, disk.Size{}},
		{"above a size", ofBytes(101, 100), true, true, disk.Size{Bytes: 1}},
		{"a size of one byte", ofBytes(2, 1), true, true, disk.Size{Bytes: 1}},
		{"no room at all", tenth(1000, 0, 0, 0), true, true, disk.Size{Bytes: 100}},
		{"below MIN_FREE", tenth(1000, 99, 0, 0), true, true, disk.Size{Bytes: 1}},
		{"at MIN_FREE", tenth(1000, 100, 0, 0), false, true, disk.Size{}},
		{"below the mark of MIN_FREE", tenth(1000, 109, 0, 0), false, true, disk.Size{}},
		{"at the mark of MIN_FREE", tenth(1000, 110, 0, 0), false, false, disk.Size{}},
		{"below MIN_FREE in inodes", tenth(1000, 500, 1000, 95), true, true, disk.Size{Inodes: 5}},
		{"at MIN_FREE in inodes", tenth(1000, 500, 1000, 100), false, true, disk.Size{}},
		{"at the mark of MIN_FREE in inodes", tenth(1000, 500, 1000, 110), false, false, disk.Size{}},
		{"below MIN_FREE in both", tenth(1000, 90, 1000, 80), true, true, disk.Size{Bytes: 10, Inodes: 20}},
		{"a filesystem that says nothing", tenth(0, 0, 0, 0), false, false, disk.Size{}},
		{"room for nothing", room(0, 0, space(1000, 0, 100, 0)), false, false, disk.Size{}},
		{"room", room(10, 1, space(1000, 10, 100, 1)), false, false, disk.Size{}},
		{"no room for bytes", room(11, 1, space(1000, 10, 100, 1)), true, true, disk.Size{Bytes: 1}},
		{"no room for inodes", room(10, 3, space(1000, 10, 100, 1)), true, true, disk.Size{Inodes: 2}},
		{"no room for inodes where none are counted", room(10, 3, space(1000, 10, 0, 0)), false, false, disk.Size{}},
	} {
		if tt.e.over() != tt.over || tt.e.above() != tt.above || tt.e.missing() != tt.missing {
			t.Errorf("%s: over %v, above %v, missing %v", tt.name, tt.e.over(), tt.e.above(), tt.e.missing())
		}
		if less := tt.e.less(tt.missing); less.over() {
			t.Errorf("%s: still over after the missing amount is freed", tt.name)
		}
	}
}

func TestShort(t *testing.T) {
	for _, tt := range []struct {
		minFree float64
		free    int64
		want    bool
	}{{0, 0, false}, {.1, 99, true}, {.1, 100, false}, {.5, 499, true}} {
		if got := (Limits{MinFree: tt.minFree}).Short(space(1000, tt.free, 0, 0)); got != tt.want {
			t.Errorf("%+v: got %v", tt, got)
		}
	}
}

// pressed has limits that a scene exceeds by far.
var pressed = map[Reason]Limits{
	Expired:        {CheckpointTTL: 0},
	TTL:            {TTL: time.Hour, CheckpointTTL: day},
	SubjectMaxSize: {SubjectMaxSize: 40, CheckpointTTL: day},
	MaxSize:        {MaxSize: 44, CheckpointTTL: day},
	MinFree:        {MinFree: .9, CheckpointTTL: day},
	NoSpace:        {Room: disk.Size{Bytes: 900}, CheckpointTTL: day},
}

// TestEvictionsByLimit checks what each limit evicts of a clone with a part of each kind
// and without holds.
func TestEvictionsByLimit(t *testing.T) {
	const text = "t/a 90m 10; checkpoint d 90m 10; tree x 90m 10; tree n 90m 10 needed; git g 90m 10; warm w 90m 10; cache c 90m 10"
	for reason, want := range map[Reason]string{
		Expired:        "d",
		TTL:            "x g", // the clone stays because of its checkpoint
		SubjectMaxSize: "d x g w",
		MaxSize:        "x g w",
		MinFree:        "x g w c d clone",
		NoSpace:        "x g w c d clone",
	} {
		inv := scene(t, text)
		inv.Space = space(1000, 840, 0, 0) // evicting everything is necessary and sufficient
		if got := ids(Decide(inv, pressed[reason])); got != want {
			t.Errorf("%s: got %s, want %s", reason, got, want)
		}
	}
}

// ids lists the evictions of a plan by ID. A whole clone is listed as clone.
func ids(p Plan) string {
	var list []string
	for _, e := range p.Evictions {
		if e.Kind == WholeClone {
			e.ID = "clone"
		}
		list = append(list, e.ID)
	}
	return strings.Join(list, " ")
}

// TestHeldPartsStay tries each kind, with each hold, against each limit. The held part
// stays, and so does its clone, unless the hold ends with the clone.
func TestHeldPartsStay(t *testing.T) {
	const text = "t/a 90m 10; checkpoint d 90m 10; tree x 90m 10; git g 90m 10; warm w 90m 10; cache c 90m 10; upper u 90m 10"
	for reason, lim := range pressed {
		for held := Leased; held <= Failed; held++ {
			for n, id := range []string{"d", "x", "g", "w", "c", "u"} {
				inv := scene(t, text)
				inv.Space = space(1000, 850, 0, 0)
				c := &inv.Clones[0]
				c.Parts[n].Use = use(held)
				if id != "u" { // an upper holds its clone whatever its hold is
					c.Parts = slices.Delete(c.Parts, 5, 6)
				}
				got := ids(Decide(inv, lim))
				if slices.Contains(strings.Fields(got), id) {
					t.Errorf("%s: %s is evicted, but is held: %s", reason, id, held)
				}
				withClone := id != "d" && id != "u" && (held == Pinned || held == Failed)
				if gone := strings.Contains(got, "clone"); gone && !withClone {
					t.Errorf("%s: the clone is evicted with %s, which is held: %s", reason, id, held)
				} else if mustGo := reason == MinFree || reason == NoSpace; !gone && withClone && mustGo {
					t.Errorf("%s: the clone stays because of %s, which is held: %s", reason, id, held)
				}
			}
			inv := scene(t, text)
			inv.Space = space(1000, 850, 0, 0)
			inv.Clones[0].Use, inv.Clones[0].Parts = use(held), inv.Clones[0].Parts[:5]
			if got := ids(Decide(inv, lim)); strings.ContainsAny(got, "wc") { // w, c, and clone
				t.Errorf("%s: %s are evicted from a clone that is held: %s", reason, got, held)
			}
		}
	}
}

// TestQueue checks that the least recently used part is first, and that parts of a clone with
// equal times are ordered by kind and ID.
func TestQueue(t *testing.T) {
	parts := []Part{{Kind: Warm, ID: "b"}, {Kind: Tree, ID: "z"}, {Kind: Tree, ID: "a"}, {Kind: Tree, ID: "c"}, {Kind: Tree, ID: "b"}}
	owner := []uint32{0, 0, 0, 1, 1}
	for _, tt := range []struct {
		name string
		ages []uint32
		want string
	}{
		{"none", nil, ""},
		{"by age", []uint32{10, 30, 20, 50, 40}, "3 4 1 2 0"},
		{"ties in a clone by kind and ID", []uint32{10, 10, 10, 5, 5}, "2 1 0 4 3"},
		{"ties between clones by clone", []uint32{10, 10, 10, 10, 10}, "2 1 0 4 3"},
		{"a tie among others", []uint32{1, 10, 10, 20, 5}, "3 2 1 4 0"},
		{"the oldest there is", []uint32{1<<32 - 1, 0, 1<<32 - 2}, "0 2 1"},
	} {
		var list []candidate
		for n, age := range tt.ages {
			list = append(list, newCandidate(age, n))
		}
		q := leastRecent(list, func(c candidate) (uint32, *Part) { return owner[c.number()], &parts[c.number()] })
		var got []string
		for c := range q {
			got = append(got, fmt.Sprint(c.number()))
			if want := time.Duration(tt.ages[c.number()]) * time.Second; c.age() != want {
				t.Errorf("%s: age %v, want %v", tt.name, c.age(), want)
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestPlanListsHoldersOfExceededLimit checks that a plan lists holders only of the subject that
// exceeds its limit, without evictable parts.
func TestPlanListsHoldersOfExceededLimit(t *testing.T) {
	const text = `
		a/1 1h 60 leased; upper u 1h 60 leased vx; checkpoint d 1h 5 vx
		a/2 1h 10; checkpoint e 1h 7 busy vy
		b/1 1h 70 leased; upper w 1h 80 kept vz
		c/1 1h 5`
	for _, tt := range []struct {
		name string
		lim  Limits
		want []string // volume or clone, and the hold
	}{
		{"of a subject", Limits{SubjectMaxSize: 100, CheckpointTTL: day}, []string{
			"vz kept by its volume (mode=keep)", "b/1 in use by a container", "a/1 in use by a container", "vx in use by a container",
			"a/2 still used by a container that kept it", "vy still used by a container that kept it",
		}},
		{"of one subject", Limits{SubjectMaxSize: 160, CheckpointTTL: day}, nil},
		{"of all", Limits{MaxSize: 250, CheckpointTTL: day}, []string{
			"vz kept by its volume (mode=keep)", "b/1 in use by a container", "a/1 in use by a container", "vx in use by a container",
			"a/2 still used by a container that kept it", "vy still used by a container that kept it", "vx in use by a container", // its checkpoint does not go in vain
		}},
	} {
		inv := scene(t, text)
		inv.Space = big
		var got []string
		for _, h := range Decide(inv, tt.lim).Holders {
			name := h.Volume
			if name == "" {
				name = h.Clone
			}
			got = append(got, name+" "+h.Held.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q", tt.name, got)
		}
	}
}
