package janitor_test

import (
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/crowd"
)

// BenchmarkDecide plans for 100,000 clones with five layers and five checkpoints each.
func BenchmarkDecide(b *testing.B) {
	inv := crowd.Inventory(100_000, 1, time.Unix(1_700_000_000, 0))
	const day = 24 * time.Hour
	var total disk.Size
	for _, c := range inv.Clones {
		total = total.Add(c.Size)
		for _, p := range c.Parts {
			total = total.Add(p.Size)
		}
	}
	for _, bb := range []struct {
		name string
		lim  janitor.Limits
		now  time.Time
	}{
		{"nothing to do", janitor.Limits{TTL: 14 * day, CheckpointTTL: 30 * day, MaxSize: total.Bytes}, inv.Now},
		{"half of the checkpoints expire", janitor.Limits{TTL: 14 * day, CheckpointTTL: day, MaxSize: total.Bytes}, inv.Now},
		{"a tenth over the budget", janitor.Limits{TTL: 14 * day, CheckpointTTL: 30 * day, MaxSize: total.Bytes / 11 * 10}, inv.Now},
		{"a third of the budget", janitor.Limits{TTL: 14 * day, CheckpointTTL: day, MaxSize: total.Bytes / 3}, inv.Now},
		{"a third of each subject's", janitor.Limits{TTL: 14 * day, CheckpointTTL: day, SubjectMaxSize: total.Bytes / 3000}, inv.Now},
		{"all", janitor.Limits{TTL: 14 * day, CheckpointTTL: day, MaxSize: 2 << 30}, inv.Now},
		{"the clock jumps by ten years", janitor.Limits{TTL: 14 * day, CheckpointTTL: day, MaxSize: total.Bytes}, inv.Now.Add(3650 * day)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			inv := inv
			inv.Now = bb.now
			b.ReportAllocs()
			var plan janitor.Plan
			for b.Loop() {
				plan = janitor.Decide(inv, bb.lim)
			}
			b.ReportMetric(float64(len(plan.Evictions)), "evictions")
		})
	}
}
