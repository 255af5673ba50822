package main

import (
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/metrics"
)

// layerClasses are the classes of layers in metrics.
var layerClasses = map[meta.Kind]string{meta.Tree: "tree", meta.GitLayer: "git_layer", meta.WarmLayer: "warm_layer"}

// phaseNames are the names of the phases of workspaces in metrics.
var phaseNames = map[meta.Phase]string{
	meta.Making: "making", meta.Mounted: "mounted", meta.Parked: "parked", meta.Ended: "ended", meta.Discarded: "discarded",
}

// figures returns the values of the metrics, from memory and one statfs.
func (p *parts) figures(m machine) metrics.Figures {
	f := metrics.Figures{
		Volumes: p.volumes.Count(), Workspaces: make(map[string]int), Disk: make(map[string]disk.Size), Subjects: make(map[string]metrics.Subject),
		Limits: m.set.limits.Limits, MaxLeases: m.set.limits.subjectMaxLeases, Janitor: p.janitor.Stats(),
		Work: m.scheduler.Load(), Shared: p.work.Shared(), Damaged: p.damaged.Load(),
	}
	select {
	case <-p.swept:
		f.Swept = true
	default:
	}
	trash := p.trash.Stats()
	f.Trash, f.Stuck, f.TrashEntries = trash.Size, trash.Stuck, trash.Entries
	// Without it, the filesystem's metrics are missing.
	f.Space, _ = disk.SpaceOf(m.at.data)
	p.addClones(&f)
	p.addWorkspaces(&f)
	return f
}

// addClones adds the clones to the figures.
func (p *parts) addClones(f *metrics.Figures) {
	for _, class := range layerClasses {
		f.Disk[class] = disk.Size{}
	}
	var store, lfs, cache disk.Size
	p.clones.EachSize(func(subject string, s clone.Sizes) {
		f.Clones++
		store, lfs, cache = store.Add(s.Store), lfs.Add(s.LFS), cache.Add(s.Cache)
		of := f.Subjects[subject]
		of.Bytes += s.Store.Bytes + s.LFS.Bytes + s.Cache.Bytes
		for kind, size := range s.Layers {
			f.Disk[layerClasses[kind]] = f.Disk[layerClasses[kind]].Add(size)
			of.Bytes += size.Bytes
		}
		f.Subjects[subject] = of
	})
	f.Disk["store"], f.Disk["lfs"], f.Disk["cache"] = store, lfs, cache
}

// addWorkspaces adds the workspaces to the figures.
func (p *parts) addWorkspaces(f *metrics.Figures) {
	for _, name := range phaseNames {
		f.Workspaces[name] = 0
	}
	var upper, discard disk.Size
	p.workspaces.Each(func(w *meta.Workspace) {
		f.Workspaces[phaseNames[w.Phase]]++
		f.Leases += len(w.Leases)
		if w.Phase == meta.Discarded {
			discard = discard.Add(w.Size.Size)
		} else {
			upper = upper.Add(w.Size.Size)
		}
		subject := w.Options["subject"]
		of := f.Subjects[subject]
		of.Bytes += w.Size.Bytes
		of.Leases += len(w.Leases)
		f.Subjects[subject] = of
	})
	f.Disk["workspace"], f.Disk["discard"] = upper, discard
}
