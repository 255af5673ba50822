package driver

import (
	"fmt"
	"testing"
	"time"
)

func TestPatience(t *testing.T) {
	t.Parallel()
	const s = time.Second
	// seen is the end of a Mount: the client hangs up, or stays until the answer.
	type seen struct {
		after  time.Duration
		mount  string // "": another mount each time
		stays  bool
		passes time.Duration // before the Mount
	}
	hangs := func(after ...time.Duration) (list []seen) {
		for _, a := range after {
			list = append(list, seen{after: a})
		}
		return list
	}
	stays := func(after time.Duration) seen { return seen{after: after, stays: true} }
	for _, tt := range []struct {
		name string
		seen []seen
		want time.Duration
	}{
		{"nobody hung up", nil, 110 * s},
		{"one client that was ended", hangs(30 * s), 110 * s},
		{"two", hangs(30*s, 30*s), 110 * s},
		{"a plain enable", hangs(30*s, 30*s+s/2, 30*s+s/3), 28 * s},
		{"clients that were ended at different times", hangs(12*s, 15*s, 18*s, 21*s, 24*s), 110 * s},
		{"one mount three times", []seen{{after: 30 * s, mount: "m"}, {after: 30 * s, mount: "m"}, {after: 30 * s, mount: "m"}}, 110 * s},
		{"too early", hangs(s, s, s, 9999*time.Millisecond, 9999*time.Millisecond, 9999*time.Millisecond), 110 * s},
		{"longer than the setting", hangs(120*s, 120*s, 120*s), 110 * s},
		{"the least", hangs(10*s, 10*s, 10*s), 8 * s},
		{"another one in between", append(hangs(30*s, 30*s, 14*s), hangs(30*s)...), 28 * s},
		{"a longer wait that succeeds", append(hangs(30*s, 30*s, 30*s), stays(40*s)), 110 * s},
		{"a longer wait before", append(hangs(30*s, 30*s), append([]seen{stays(40 * s)}, hangs(30*s)...)...), 110 * s},
		{"a shorter wait that succeeds", append(hangs(30*s, 30*s, 30*s), stays(20*s)), 28 * s},
		{"another client waits longer, and hangs up", hangs(12*s, 12*s, 12*s, 60*s), 110 * s},
		{"some time passes", append(hangs(30*s, 30*s, 30*s), seen{after: s, stays: true, passes: 2 * time.Hour}), 110 * s},
		{"hang-ups that are far apart", []seen{{after: 30 * s}, {after: 30 * s, passes: 2 * time.Hour}, {after: 30 * s, passes: 2 * time.Hour}}, 110 * s},
		{"it is learned anew", append([]seen{{after: 30 * s}, {after: 30 * s}, {after: 30 * s}, {after: s, passes: 2 * time.Hour}}, hangs(30*s, 30*s, 30*s)...), 28 * s},
	} {
		p := patience{most: 110 * s}
		now := time.Now()
		for i, see := range tt.seen {
			now = now.Add(see.passes + see.after)
			if see.stays {
				p.waited(see.after)
				continue
			}
			l := mountID{"v", see.mount}
			if see.mount == "" {
				l.ID = fmt.Sprint(i)
			}
			p.hungUp(l, see.after, now)
		}
		if got := p.left(now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestPatienceIsBounded checks that the number of stored hang-ups is limited.
func TestPatienceIsBounded(t *testing.T) {
	t.Parallel()
	p := patience{most: time.Minute}
	now := time.Now()
	for i := range 1000 {
		p.hungUp(mountID{"v", fmt.Sprint(i)}, 30*time.Second, now)
	}
	if n := len(p.hangUps); n > patienceKept {
		t.Errorf("%d hang-ups are kept, want at most %d", n, patienceKept)
	}
	if got, want := p.left(now), 28*time.Second; got != want {
		t.Errorf("patience %v, want %v", got, want)
	}
}
