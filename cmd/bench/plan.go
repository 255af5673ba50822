package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/crowd"
)

func planRow(n int) string   { return fmt.Sprintf("plan for %d clones", n) }
func planSpace(n int) string { return planRow(n) + ": memory, the inventory included" }

// plan measures the janitor's plan for clones with five layers and five checkpoints each, whose
// size is three times the budget. The clones are not on the disk.
func plan(c config) group {
	var inv janitor.Inventory
	var lim janitor.Limits
	var held int64 // bytes of the inventory
	return group{
		name: "plan", rounds: c.runs, once: true, bare: true,
		prepare: func(context.Context, *scene) error {
			before := heap()
			inv = crowd.Inventory(c.planned, 1, time.Now())
			held = heap() - before
			var all int64
			for _, one := range inv.Clones {
				all += one.Size.Bytes
				for _, p := range one.Parts {
					all += p.Size.Bytes
				}
			}
			lim = janitor.Limits{TTL: 336 * time.Hour, CheckpointTTL: 24 * time.Hour, MaxSize: all / 3}
			return nil
		},
		rows: []row{
			{name: planRow(c.planned), unit: ms, sample: func(context.Context, *scene, int) (float64, error) {
				runtime.GC() // earlier garbage must not count
				return clock(func() error {
					if len(janitor.Decide(inv, lim).Evictions) == 0 {
						return fmt.Errorf("the plan evicts nothing, although the budget is a third of the size")
					}
					return nil
				})
			}},
			// The sum of all allocations of one plan, as if nothing were freed before its end.
			{name: planSpace(c.planned), unit: mib, sample: func(context.Context, *scene, int) (float64, error) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_ = janitor.Decide(inv, lim)
				runtime.ReadMemStats(&after)
				return loopdisk.MiB(held + int64(after.TotalAlloc-before.TotalAlloc)), nil
			}},
		},
	}
}

// heap returns how many bytes of the heap are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
