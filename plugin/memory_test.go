package main

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestSharesOf(t *testing.T) {
	t.Parallel()
	const mib, gib = 1 << 20, 1 << 30
	for _, tt := range []struct {
		total int64
		want  shares
	}{
		{256 * mib, shares{own: 128 * mib, child: 256 * mib}},
		{3 * gib, shares{own: 384 * mib, child: gib}},
		{64 * gib, shares{own: gib, child: 4 * gib}},
	} {
		if got := sharesOf(tt.total); got != tt.want {
			t.Errorf("shares of %d bytes: %+v, want %+v", tt.total, got, tt.want)
		}
	}
}

// TestTrimReturnsMemory checks that what is not used goes back to the system.
//
// Not parallel: it measures the memory of the process.
func TestTrimReturnsMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it measures memory")
	}
	garbage := make([][]byte, 0, 100)
	for range 100 {
		garbage = append(garbage, make([]byte, 1<<20))
	}
	before := held()
	runtime.KeepAlive(garbage)
	synctest.Test(t, func(t *testing.T) {
		go trim(t.Context())
		time.Sleep(trimInterval + 1)
		synctest.Wait()
	})
	if after := held(); after+90<<20 > before {
		t.Errorf("the runtime held %d MiB before trim, and %d MiB after it", before>>20, after>>20)
	}
}
