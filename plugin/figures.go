package main

import (
	"github.com/helmdeck/repos/internal/admin/metrics"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// phaseNames are the names of the phases of workspaces in metrics.
var phaseNames = map[meta.Phase]string{
	meta.Making: "making", meta.Mounted: "mounted", meta.Parked: "parked", meta.Ended: "ended", meta.Checkpoint: "checkpoint",
}

// figures returns the values of the metrics, from memory and one statfs.
func (p *parts) figures(m machine) metrics.Figures {
	f := metrics.Figures{
		Volumes: p.volumes.Count(), Workspaces: make(map[string]int), Filled: make(map[int]int), Disk: make(map[string]disk.Size), Subjects: make(map[string]*metrics.Subject),
		Limits: m.set.limits.Limits, MaxLeases: m.set.limits.subjectMaxLeases, Janitor: p.janitor.Stats(),
		Work: m.scheduler.Load(), Shared: p.work.Shared(), Damaged: p.damaged.Load(),
	}
	select {
	case <-p.swept:
		f.Swept = true
	default:
	}
	trash := p.trash.Stats()
	f.Trash, f.Stuck, f.TrashEntries = trash.Size, trash.Stuck.Add(trash.Later), trash.Entries
	f.Own = ownFiles(m.at.data)
	// Without it, the filesystem's metrics are missing.
	f.Space, _ = disk.SpaceOf(m.at.data)
	p.addClones(&f)
	p.addWorkspaces(&f)
	return f
}

// addClones adds the clones to the figures.
func (p *parts) addClones(f *metrics.Figures) {
	var sum clone.Sizes
	p.clones.EachSize(func(subject string, s clone.Sizes) {
		f.Clones++
		of := f.Subject(subject)
		for _, c := range []struct {
			sum *disk.Size
			disk.Size
		}{
			{&sum.Store, s.Store}, {&sum.LFS, s.LFS}, {&sum.Caches, s.Caches},
			{&sum.Trees, s.Trees}, {&sum.GitLayers, s.GitLayers}, {&sum.WarmLayers, s.WarmLayers},
		} {
			*c.sum = c.sum.Add(c.Size)
			of.Bytes += c.Bytes
		}
	})
	f.Disk["store"], f.Disk["lfs"], f.Disk["cache"] = sum.Store, sum.LFS, sum.Caches
	f.Disk["tree"], f.Disk["git_layer"], f.Disk["warm_layer"] = sum.Trees, sum.GitLayers, sum.WarmLayers
}

// addWorkspaces adds the workspaces to the figures.
func (p *parts) addWorkspaces(f *metrics.Figures) {
	var upper, checkpoint disk.Size
	phases := make(map[meta.Phase]int, len(phaseNames))
	f.Made = make(map[meta.Made]int)
	p.workspaces.Each(func(w *meta.Workspace) {
		phases[w.Phase]++
		f.Leases += len(w.Leases)
		if w.Phase == meta.Checkpoint {
			checkpoint = checkpoint.Add(w.Size.Size)
			f.Made[w.Made]++
			if w.Name != "" {
				f.Named++
				f.NamedBytes += w.Size.Bytes
			}
		} else {
			upper = upper.Add(w.Size.Size)
		}
		if w.Phase.Live() && w.Limit != (disk.Size{}) {
			for _, percent := range []int{0, 90, 100} {
				if w.Size.Percent(w.Limit) >= percent {
					f.Filled[percent]++
				}
			}
		}
		of := f.Subject(w.Options["subject"])
		of.Bytes += w.Size.Bytes
		of.Leases += len(w.Leases)
	})
	for phase, name := range phaseNames {
		f.Workspaces[name] = phases[phase]
	}
	f.Disk["workspace"], f.Disk["checkpoint"] = upper, checkpoint
}
