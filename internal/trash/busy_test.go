package trash

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBusyIsAskedLater(t *testing.T) {
	errCheck := errors.New("check failed")
	tests := []struct {
		name    string
		answers []error // nil means busy; free after the last
		reports int
	}{
		{"free", nil, 1},
		{"busy", make([]error, 8), 1},
		{"error", []error{errCheck, errCheck, errCheck}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			victim := tree(t)
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var at []time.Duration
				var reps reports
				tr := open(t, dir, Options{Report: reps.add, Busy: func(entry string) (bool, error) {
					at = append(at, time.Since(start))
					if n := len(at); n <= len(tt.answers) {
						return tt.answers[n-1] == nil, tt.answers[n-1]
					}
					return false, nil
				}})
				put(t, tr, victim, "ws")
				run(t, tr)
				idle(t, tr)
				wantNames(t, dir)
				s := time.Second
				want := []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 31 * s, 63 * s, 123 * s, 183 * s}[:len(tt.answers)+1]
				if !slices.Equal(at, want) {
					t.Errorf("asked at %v, want %v", at, want)
				}
				all := reps.take()
				if len(all) != tt.reports || all[len(all)-1].Err != nil {
					t.Fatalf("reports %+v", all)
				}
				if tt.reports == 2 && (!errors.Is(all[0].Err, errCheck) || all[0].Left != 0) {
					t.Errorf("report %+v", all[0])
				}
			})
		})
	}
}

// One busy entry holds up no other, and Retry does not wait for its time.
func TestRetry(t *testing.T) {
	dir := t.TempDir()
	held, free := tree(t), tree(t)
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		busy := true
		tr := open(t, dir, Options{Busy: func(entry string) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			return busy && strings.HasPrefix(filepath.Base(entry), "held-"), nil
		}})
		entry := put(t, tr, held, "held")
		run(t, tr)
		time.Sleep(time.Hour) // of the fake clock
		put(t, tr, free, "free")
		synctest.Wait()
		wantNames(t, dir, filepath.Base(entry))
		mu.Lock()
		busy = false
		mu.Unlock()
		asked := time.Now()
		tr.Retry()
		idle(t, tr)
		wantNames(t, dir)
		if d := time.Since(asked); d != 0 {
			t.Errorf("deleted %v after the retry", d)
		}
	})
}
