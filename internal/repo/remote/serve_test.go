package remote

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// TestServedBy has a row for each rule of servedBy, and for each of its limits.
func TestServedBy(t *testing.T) {
	t0 := time.Now()
	at := func(d time.Duration) time.Time { return t0.Add(d) }
	record := func(ref, commit string, age time.Duration) said {
		return said{recorded: &meta.Resolution{Ref: ref, Commit: commit, At: at(-age)}}
	}
	const main = "refs/heads/main"
	volumeOf := Since{Asked: 3, At: t0, For: 2 * time.Second} // created after question 3
	for _, tt := range []struct {
		name string
		said said
		r    request
		want bool
	}{
		// Whether the question began after the request came.
		{"began after the request", said{number: 4, began: at(1), at: at(2)}, request{now: t0, came: t0}, true},
		{"began with the request", said{number: 4, began: t0, at: at(2)}, request{now: t0, came: t0}, true},
		{"under way when the request came", said{number: 4, began: at(-1), at: at(2)}, request{now: t0, came: t0}, false},
		{"ended when the request came", said{number: 4, began: at(-2), at: at(-1)}, request{now: t0, came: t0}, false},
		{"a request that is late to ask", said{number: 4, began: at(1), at: at(2)}, request{now: at(time.Minute), came: t0}, true},
		{"began after Create, and before the Mount", said{number: 4, began: at(1), at: at(2)}, request{Since: Since{Asked: 3, At: t0}, now: at(3), came: at(3)}, false},
		{"of a volume of an earlier process", said{number: 1, began: at(1)}, request{now: t0, came: t0}, true},
		{"the newest at Create", said{number: 3, began: at(1)}, request{Since: volumeOf, now: t0, came: t0}, false},
		{"begun before a change of credentials", said{number: 4, changes: 1, began: at(1)}, request{changes: 2, now: t0, came: t0}, false},
		{"begun after a change of credentials", said{number: 4, changes: 2, began: at(1)}, request{changes: 1, now: t0, came: t0}, true},
		{"the store knows better", said{number: 4, began: at(1), overtaken: true}, request{now: t0, came: t0}, false},

		// The answer to Create, for Mounts that came later.
		{"right after Create", said{number: 4, at: t0}, request{Since: volumeOf, now: t0, came: at(1)}, true},
		{"just before the end", said{number: 4, at: t0}, request{Since: volumeOf, now: at(2*time.Second - 1), came: at(1)}, true},
		{"at the end", said{number: 4, at: t0}, request{Since: volumeOf, now: at(2 * time.Second), came: at(1)}, false},
		{"a later answer", said{number: 9, at: at(time.Second)}, request{Since: volumeOf, now: at(time.Second + 1), came: at(1)}, true},
		{"an answer from before Create", said{number: 3, at: t0}, request{Since: volumeOf, now: at(1), came: at(1)}, false},
		{"a credential was removed", said{number: 4, at: t0}, request{Since: volumeOf, changes: 1, now: at(1), came: at(1)}, false},
		{"the store knows better than Create", said{number: 4, at: t0, overtaken: true}, request{Since: volumeOf, now: at(1), came: at(1)}, false},
		{"a name of a person's, or refresh=always", said{number: 4, at: t0}, request{Since: Since{Asked: 3, At: t0}, now: t0, came: at(1)}, false},
		{"created again", said{number: 4, at: t0}, request{Since: Since{Asked: 4}, now: t0, came: at(1)}, false},
		{"the clock was set back", said{number: 4, at: t0}, request{Since: volumeOf, now: at(-1), came: at(1)}, false},
		{"the clock was set back, and forth", said{number: 4, at: at(-1)}, request{Since: volumeOf, now: at(1), came: at(1)}, false},
		{"the clock was set back after the time", said{number: 4, at: at(2 * time.Second)}, request{Since: volumeOf, now: at(1), came: at(1)}, false},
		{"an answer of the future", said{number: 4, at: at(2)}, request{Since: volumeOf, now: at(1), came: at(1)}, false},

		// Records.
		{"auto", record(main, "c", 0), request{now: t0}, false},
		{"never", record(main, "c", time.Hour), request{refresh: volume.Refresh{Never: true}, now: t0}, true},
		{"always", record(main, "c", 0), request{refresh: volume.Refresh{Always: true}, now: t0}, false},
		{"within the interval", record(main, "c", time.Minute-1), request{refresh: volume.Refresh{Interval: time.Minute}, now: t0}, true},
		{"after the interval", record(main, "c", time.Minute), request{refresh: volume.Refresh{Interval: time.Minute}, now: t0}, false},
		{"interval, and the clock was set back", record(main, "c", -1), request{refresh: volume.Refresh{Interval: time.Minute}, now: t0}, false},
		{"interval, without a commit", record(main, "", 0), request{refresh: volume.Refresh{Interval: time.Minute}, now: t0}, false},
		{"interval, recorded before Create", record(main, "c", time.Minute-1), request{Since: volumeOf, refresh: volume.Refresh{Interval: time.Minute}, now: t0}, true},
		{"interval, recorded before a change of credentials", record(main, "c", time.Minute-1), request{changes: 1, refresh: volume.Refresh{Interval: time.Minute}, now: t0}, true},
		{"a commit", record("", "c", time.Hour), request{commit: true, now: t0}, true},
		{"a branch that is named as a commit", record(main, "c", time.Hour), request{commit: true, now: t0}, false},
		{"a detached HEAD", record("", "c", time.Hour), request{now: t0}, false},
		{"down, old enough", record(main, "c", time.Hour), request{down: true, stale: time.Hour, now: t0}, true},
		{"down, too old", record(main, "c", time.Hour+1), request{down: true, stale: time.Hour, now: t0}, false},
		{"down, and no old answer allowed", record(main, "c", 0), request{down: true, now: t0}, false},
	} {
		if got := tt.r.servedBy(tt.said); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestKept checks that the last answer stays in memory for as long as somebody may ask for it, and not longer.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k kept
		want := func(what string, number int64) {
			t.Helper()
			synctest.Wait()
			if got, ok := k.get("k"); ok != (number > 0) || got.number != number {
				t.Errorf("%s: %d, %v; want %d", what, got.number, ok, number)
			}
		}
		answer := func(number int64) question { return question{said: said{number: number}} }
		want("never asked", 0)
		k.keep("k", answer(1), 0)
		k.keep("other", answer(9), 0)
		time.Sleep(keptLate - 1)
		want("for requests that are late", 1)
		time.Sleep(1 * time.Nanosecond)
		want("later", 0)
		k.keep("k", answer(2), 10*time.Second)
		k.keep("k", answer(3), 0)
		k.keep("k", answer(2), 0)
		time.Sleep(10*time.Second - 1)
		want("for a new volume", 3)
		time.Sleep(1 * time.Nanosecond)
		want("later", 0)
		k.keep("k", answer(4), time.Hour)
		time.Sleep(keptMost)
		want("after a minute", 0)
		if k.last != nil {
			t.Errorf("in memory: %v", k.last)
		}
	})
}
