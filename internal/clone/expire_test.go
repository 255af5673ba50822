package clone

import (
	"slices"
	"testing"
	"time"
)

// A day after its last resolution, a ref that no volume names expires and no longer keeps
// its tree. A ref that a volume names stays.
func TestRefsExpire(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	w := newWorld(t, "")
	main, named, job := w.spec("ref", "main"), w.spec("ref", w.remote("rev-parse", "main~2")), w.spec("ref", w.remote("rev-parse", "main~1"))
	c := w.clone(main)
	for _, s := range []Spec{main, named, named, job} {
		c.remote.RetainRef(s.Source)
		w.prepare(s).Release()
	}
	c.remote.ReleaseRef(named.Source) // by one of two volumes
	w.Advance(day + time.Second)
	check := func(when string, want bool) {
		t.Helper()
		info, _ := c.Info()
		for _, tt := range []struct {
			s    Spec
			want bool
		}{{main, true}, {named, true}, {job, want}} {
			_, known := c.remote.Resolution(tt.s.Source)
			needed := slices.ContainsFunc(info.Layers, func(l LayerInfo) bool { return l.Need == "ref "+tt.s.Ref.String() })
			if known != tt.want || needed != tt.want {
				t.Errorf("%s: ref %s is known: %v, its tree needed: %v; want %v", when, tt.s.Ref, known, needed, tt.want)
			}
		}
	}
	w.Push("main")
	w.prepare(main).Release()
	check("named", true)
	c.remote.ReleaseRef(job.Source)
	check("not named, and nothing has happened", true)
	w.prepare(w.spec("ref", w.remote("rev-parse", "feature/x"))).Release()
	check("after another commit", false)
	w.prepare(job).Release()
	check("asked for again", true)
	w.Advance(day + time.Second)
	w.Push("main")
	w.prepare(main).Release()
	check("after a fetch", false)
}
