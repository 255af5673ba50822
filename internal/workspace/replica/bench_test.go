package replica

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/helmdeck/repos/tests/testdisk"
)

// BenchmarkPasses copies files of 10 KB, 50 in each directory: all of them in the first pass, and then none and 100. It
// reports how much memory the table takes for each entry.
func BenchmarkPasses(b *testing.B) {
	text := make([]byte, 10_000)
	for _, fs := range []struct {
		name string
		make func(dir string) error
	}{
		{"ext4", func(dir string) error { return testdisk.Ext4(dir, 2<<30) }},
		{"xfs", func(dir string) error { return testdisk.XFS(dir, 2<<30) }},
	} {
		b.Run(fs.name, func(b *testing.B) {
			dir := newDisk(b, fs.make)
			for _, files := range []int{1000, 10_000} {
				from, to := fmt.Sprintf("%s/from%d", dir, files), fmt.Sprintf("%s/to%d", dir, files)
				name := func(i int) string { return fmt.Sprintf("%s/%d/some-name-%d", from, i/50, i) }
				for i := range files {
					if i%50 == 0 {
						check(b, os.MkdirAll(fmt.Sprintf("%s/%d", from, i/50), 0o755))
					}
					check(b, os.WriteFile(name(i), text, 0o644))
				}
				var r *Replica
				start := func(b *testing.B) {
					check(b, os.RemoveAll(to))
					check(b, os.Mkdir(to, 0o755))
					src, dst := open(b, from), open(b, to)
					b.StartTimer()
					var err error
					r, _, err = Start(b.Context(), src, dst, Options{Limits: generous})
					b.StopTimer()
					check(b, err)
				}
				b.Run(fmt.Sprintf("start-%d", files), func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						start(b)
						b.StartTimer()
					}
				})
				b.StopTimer()
				var before, after runtime.MemStats
				r = nil
				runtime.GC()
				runtime.ReadMemStats(&before)
				start(b)
				runtime.GC()
				runtime.ReadMemStats(&after)
				memory := float64(after.HeapAlloc-before.HeapAlloc) / float64(files)
				for _, changed := range []int{0, 100} {
					b.Run(fmt.Sprintf("finish-%d-%d", files, changed), func(b *testing.B) {
						for b.Loop() {
							b.StopTimer()
							for i := range changed {
								check(b, os.WriteFile(name(i*files/100), text, 0o644))
							}
							b.StartTimer()
							result, err := r.Finish(b.Context())
							if err != nil || int(result.Changed) < changed {
								b.Fatal(result, err)
							}
						}
						b.ReportMetric(memory, "B/entry")
					})
				}
			}
		})
	}
}
