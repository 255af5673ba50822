// Package crowd makes large inventories for benchmarks of the janitor's planner.
package crowd

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/janitor"
)

// Layers and Checkpoints are the numbers of layers and checkpoints of a clone.
const (
	Layers      = 5
	Checkpoints = 5
)

// Inventory returns idle clones in random order, each with five layers and five
// checkpoints, used within the last ten days. The same seed gives the same inventory.
func Inventory(clones int, seed uint64, now time.Time) janitor.Inventory {
	r := rand.New(rand.NewPCG(seed, 1))
	inv := janitor.Inventory{Now: now, Space: disk.Space{
		Total: disk.Size{Bytes: 1 << 50, Inodes: 1 << 40}, Free: disk.Size{Bytes: 1 << 49, Inodes: 1 << 39},
	}}
	within := func(d time.Duration) int64 { return janitor.Stamp(now) - r.Int64N(int64(d/time.Second)) }
	size := func(most int64) disk.Size { return disk.Size{Bytes: 1 + r.Int64N(most), Inodes: 1 + r.Int64N(1000)} }
	const day = 24 * time.Hour
	for i := range clones {
		c := janitor.Clone{
			Key: fmt.Sprintf("subject-%d/%016x", i%1000, i), Subject: fmt.Sprintf("subject %d", i%1000), Repo: "https://host/repo",
			Mounted: true, Used: within(10 * day), Size: size(1 << 30), Parts: make([]janitor.Part, 0, Layers+Checkpoints),
		}
		kinds := []janitor.Kind{janitor.Tree, janitor.GitLayer, janitor.Tree, janitor.Warm, janitor.Cache}
		for n, kind := range kinds[:Layers] {
			c.Parts = append(c.Parts, janitor.Part{
				Kind: kind, ID: fmt.Sprintf("%08x%08x", n, i), Used: within(10 * day), Size: size(1 << 26), Needed: n < 2,
			})
		}
		for n := range Checkpoints {
			c.Parts = append(c.Parts, janitor.Part{
				Kind: janitor.Checkpoint, ID: fmt.Sprintf("d%07x%08x", n, i), Volume: "volume", Used: within(2 * day), Size: size(1 << 24),
			})
		}
		inv.Clones = append(inv.Clones, c)
	}
	r.Shuffle(clones, func(i, j int) { inv.Clones[i], inv.Clones[j] = inv.Clones[j], inv.Clones[i] })
	return inv
}
