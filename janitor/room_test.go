package janitor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

func TestMakeRoom(t *testing.T) {
	held := "t/a 1h 300 leased; upper u 1h 200 leased vwork"
	for _, tt := range []struct {
		name        string
		free, trash int64
		need        int64
		scene       string
		want        string // evictions
		err         string // part of the error
	}{
		{"there is some by now", 60, 0, 50, held, "", ""},
		{"in the trash", 10, 100, 50, held, "", ""},
		{"by eviction", 10, 0, 50, "t/a 1h 100\n t/b 2h 95", "t/b", ""},
		{"as much as is needed", 10, 0, 150, "t/a 1h 100\n t/b 2h 95", "t/b, t/a", ""},
		{"some, and less than is needed", 10, 0, 150, "t/b 2h 45\n" + held, "t/b", ""},
		{"none, and less than is needed", 10, 0, 150, held, "",
			`10 B are free, 140 B are missing, and nothing more can be evicted (held by the clone of https://host/t/a for subject "t" (300 B, in use by a container), what was written to volume "vwork" (200 B, in use by a container))`},
		{"nobody knows how much is needed: MIN_FREE", 10, 0, 0, "t/a 1h 100\n t/b 2h 95", "t/b", ""},
		{"nobody knows how much is needed: what is free was not enough", 120, 0, 0, "t/a 1h 100\n t/b 2h 115\n t/c 3h 10", "t/c, t/b", ""},
		{"nobody knows how much is needed: the trash frees as much again", 50, 70, 0, "t/a 1h 100\n t/b 2h 115\n t/c 3h 10", "", ""},
		{"nobody knows how much is needed: the trash frees less", 60, 30, 0, "t/a 1h 100\n t/b 2h 115\n t/c 3h 10", "t/c, t/b", ""},
		{"nobody knows how much is needed, and nothing can go", 120, 0, 0, held, "", "120 B are free, 100 B are missing"},
		{"nobody knows how much is needed: MIN_FREE more at most", 500, 0, 0, "t/a 1h 50\n t/b 2h 60\n o/c 3h 50", "o/c, t/b", ""},
		{"a guess takes the subject's own checkpoints", 500, 0, 0, "o/a 1h 10; checkpoint o 2h 300\n t/a 1h 10; checkpoint d 1h 100", "t/a/d", ""},
		{"and others' where the disk is full", 5, 0, 0, "o/a 1h 10; checkpoint o 2h 300\n t/a 1h 10 leased", "o/a/o", ""},
		{"and else no others', and nothing just made", 500, 0, 0, "o/a 1h 10; checkpoint o 2h 300\n t/a 1m 300 new", "",
			`(held by the clone of https://host/t/a for subject "t" (300 B, just made), and 310 B of others: docker repos df and the plugin's log say whose)`},
		{"who holds it is said to none but an operator", 10, 0, 150, "o/secret 1h 300 leased; upper u 1h 200 leased vsecret", "",
			"(held by 500 B of others: docker repos df and the plugin's log say whose)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, log := open(t, Config{Limits: Limits{TTL: 7 * day, CheckpointTTL: day, Grace: 5 * time.Minute}}, tt.scene)
				s.inv.Space.Free.Bytes, s.inv.Trash.Bytes = tt.free, tt.trash
				if tt.need == 0 {
					j.config.Limits.MinFree = .1
				}
				err := j.MakeRoom(t.Context(), "t", disk.Size{Bytes: tt.need})
				var full *RoomError
				if tt.err == "" && err != nil || tt.err != "" && (!errors.As(err, &full) || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				if full != nil {
					events := j.Events()
					if last := events[len(events)-1]; last.Type != Warning || !strings.HasSuffix(last.Text, full.Full()) || !strings.Contains(log.String(), full.Full()) ||
						strings.Contains(tt.scene, "secret") && (strings.Contains(err.Error(), "secret") || !strings.Contains(full.Full(), "vsecret")) {
						t.Errorf("the last event is %+v, the log %s", last, log)
					}
				}
				if got := s.attempts(); got != tt.want {
					t.Errorf("evicted %q, want %q", got, tt.want)
				}
				if space, _ := s.Space(); err == nil && tt.want != "" && (s.inv.Trash.Bytes != 0 || space.Free.Bytes <= tt.free) {
					t.Errorf("the evicted bytes are not free yet: %+v", s.inv)
				}
			})
		})
	}
}

// TestFailedSearchRefreshesFindings checks that after a failed search for room the findings are those of then, and name what is
// in use and not measured yet first.
func TestFailedSearchRefreshesFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day, MinFree: .1}}, "t/a 1h 100 leased\n o/b 1h 10 leased; upper u 1h 0 leased vnew")
		s.inv.Space.Free.Bytes = 90
		if _, err := j.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := j.Findings(); len(got) != 1 || !strings.Contains(got[0].Text, `held by the clone of https://host/t/a for subject "t" (100 B`) {
			t.Fatalf("at first %+v", got)
		}
		at := j.Stats().FindingsAt
		time.Sleep(time.Minute)
		s.inv.Now = s.inv.Now.Add(time.Minute)
		s.inv.Space.Free.Bytes = 5
		s.inv.Clones[1].Parts[0].Unmeasured = true
		if err := j.MakeRoom(t.Context(), "t", disk.Size{Bytes: 50}); err == nil {
			t.Fatal("found room")
		}
		if got := j.Findings(); len(got) != 1 || !strings.Contains(got[0].Text, `held by what was written to volume "vnew" (not measured yet, in use by a container), the clone`) {
			t.Errorf("after the search %+v", got)
		}
		if got := j.Stats().FindingsAt; !got.After(at) {
			t.Errorf("the findings are of %v, those before of %v", got, at)
		}
		// What has grown has grown since the last sweep, however many searches came after it.
		s.inv.Clones[1].Parts[0].Unmeasured, s.inv.Clones[1].Parts[0].Size.Bytes = false, 70
		for range 2 {
			if err := j.MakeRoom(t.Context(), "t", disk.Size{Bytes: 50}); err == nil {
				t.Fatal("found room")
			}
			if got := j.Findings(); !slices.ContainsFunc(got, func(f Finding) bool { return strings.Contains(f.Text, "70 B of it since the last sweep") }) {
				t.Errorf("when it has grown %+v", got)
			}
		}
	})
}

// TestMakeRoomForInodes checks that clones are evicted for inodes alone if these are short.
func TestMakeRoomForInodes(t *testing.T) {
	for _, tt := range []struct {
		name                string
		free, trash, inodes int64 // inodes are free
		want                string
	}{
		{"no inodes", 500, 0, 9, "t/b"},
		{"no inodes, but in the trash", 500, 91, 9, ""},
		{"short of both", 50, 0, 9, "t/b, t/a"},
		{"some inodes", 200, 0, 40, "t/b, t/a"},
		{"short of neither", 200, 0, 400, "t/b, t/a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day, MinFree: .1}}, "t/a 1h 40/95\n t/b 2h 40/95")
				s.inv.Space = disk.Space{Total: disk.Size{Bytes: 1000, Inodes: 1000}, Free: disk.Size{Bytes: tt.free, Inodes: tt.inodes}}
				s.inv.Trash.Inodes = tt.trash
				if err := j.MakeRoom(t.Context(), "t", disk.Size{}); err != nil {
					t.Error(err)
				}
				if got := s.attempts(); got != tt.want {
					t.Errorf("evicted %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestAwaitRoom checks that AwaitRoom deletes the trash if the disk counts as full, and evicts nothing.
func TestAwaitRoom(t *testing.T) {
	for _, tt := range []struct {
		name    string
		free    int64
		minFree float64
		want    int // calls of Hurry that had to wait
	}{
		{"above MIN_FREE", 100, .1, 0},
		{"below MIN_FREE", 99, .1, 1},
		{"above what is least without MIN_FREE", 10, 0, 0},
		{"below what is least without MIN_FREE", 9, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day, MinFree: tt.minFree}}, "t/a 1h 400")
				s.inv.Space.Free.Bytes, s.inv.Trash.Bytes = tt.free, 5
				if err := j.AwaitRoom(t.Context()); err != nil {
					t.Error(err)
				}
				if got := s.attempts(); got != "" || s.hurry != tt.want {
					t.Errorf("evicted %q, hurried %d times, want %d", got, s.hurry, tt.want)
				}
			})
		})
	}
}

// TestMakeRoomForManyAtOnce checks that concurrent calls evict once.
func TestMakeRoomForManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day}}, "t/a 1h 100\n t/b 2h 100\n t/c 3h 100\n t/d 3h 100")
		s.inv.Space.Free.Bytes = 50
		unlock, _ := j.lock(t.Context())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := j.MakeRoom(t.Context(), "t", disk.Size{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		unlock()
		all.Wait()
		if got := s.attempts(); got != "t/c" {
			t.Errorf("evicted %s", got)
		}
	})
}

// TestMakeRoomWaitsItsTurn checks that MakeRoom waits for a sweep, but not longer than its
// context.
func TestMakeRoomWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := open(t, Config{Limits: Limits{CheckpointTTL: day}}, "")
		unlock, _ := j.lock(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := j.MakeRoom(ctx, "t", disk.Size{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		unlock()
		if err := j.MakeRoom(t.Context(), "t", disk.Size{Bytes: 1}); err != nil {
			t.Errorf("got %v", err)
		}
	})
}

// TestMakeRoomBesideStuckTrash checks that MakeRoom waits for the trash only for a while,
// and then evicts.
func TestMakeRoomBesideStuckTrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day, MinFree: .1}}, "t/a 1h 100")
		s.inv.Space.Free.Bytes, s.stuck = 10, true
		began := time.Now()
		if err := j.MakeRoom(context.WithoutCancel(t.Context()), "t", disk.Size{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 2*hurryMost || s.attempts() != "t/a" {
			t.Errorf("took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), hurryMost/2)
		defer cancel()
		if err := j.MakeRoom(ctx, "t", disk.Size{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time of the caller is over", err)
		}
	})
}
