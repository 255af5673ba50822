package trash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkBusy reports how many files the worker deletes a second beside programs that compute
// all the time, and on a machine where there are none.
//
//	go test -run '^$' -bench Busy -benchtime 1x ./internal/disk/trash
func BenchmarkBusy(b *testing.B) {
	for _, loops := range []int{0, 2, 4} {
		for _, hurry := range []bool{false, true} {
			b.Run(fmt.Sprintf("loops=%d/hurry=%v", loops, hurry), func(b *testing.B) {
				benchmark(b, loops, hurry)
			})
		}
	}
}

func benchmark(b *testing.B, loops int, hurry bool) {
	const files = 12_000
	for b.Loop() {
		b.StopTimer()
		tr, err := Open(filepath.Join(b.TempDir(), "trash"), nil, nil)
		victim := filepath.Join(b.TempDir(), "victim")
		for i := range files {
			dir := filepath.Join(victim, fmt.Sprint(i/100))
			if err == nil && i%100 == 0 {
				err = os.MkdirAll(dir, 0o755)
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, 5000), 0o600)
			}
		}
		if err == nil {
			_, err = tr.Put(victim, "victim")
		}
		if err != nil {
			b.Fatal(err)
		}
		tr.measure(b.Context())
		for range loops {
			c := exec.CommandContext(b.Context(), "sh", "-c", "while :; do :; done")
			if err := c.Start(); err != nil {
				b.Fatal(err)
			}
			defer func() { _, _ = c.Process.Kill(), c.Wait() }()
		}
		if hurry {
			tr.hurry(1)
		}
		began := time.Now()
		b.StartTimer()
		go tr.Run(b.Context())
		if err := tr.await(b.Context(), never); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(files/time.Since(began).Seconds(), "files/s")
	}
}
