package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/driver"
	"github.com/helmdeck/repos/internal/admin/journal"
	"github.com/helmdeck/repos/internal/admin/metrics"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/hostnames"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/work"
)

// machine holds what the plugin finds out and prepares before it opens its records.
type machine struct {
	at       places
	set      settings
	boot     string // the kernel's boot ID
	reserve  *disk.Reserve
	features overlay.Features
	remap    *driver.Remap
	work     *work.Group
	// scheduler decides when heavy work runs.
	scheduler *work.Scheduler
	counters  *metrics.Counters
	git       *git.Git
	mounts    *reach
	names     *hostnames.Follower
	audit     auditor
	journal   *journal.Ring
}

// hostPlaces returns where the files of name resolution are. Only a managed plugin has a root
// directory of its own, in which the engine mounts the host's directories, as config.json says.
func (p places) hostPlaces() hostnames.Places {
	if !p.managed {
		return hostnames.Places{}
	}
	return hostnames.Places{Host: "/host", Etc: "/etc", Copies: git.Names}
}

// prepare claims the data directory and checks what the kernel, the engine and git can do.
func prepare(at places, set settings, log *logrus.Logger) (m machine, err error) {
	m = machine{
		at: at, set: set, reserve: disk.NewReserve(filepath.Join(at.data, reserveFile)), work: work.NewGroup(),
		scheduler: work.NewScheduler(work.DefaultLimits(work.Processors())), counters: metrics.NewCounters(),
	}
	syscall.Umask(0o022)
	if err := claim(at.data); err != nil {
		return m, err
	}
	if err := at.openForGit(); err != nil {
		return m, err
	}
	if m.features, err = probe(at.data, m.reserve); err != nil {
		return m, err
	}
	if set.context != "" {
		if err := overlay.CheckContext(at.data, set.context); err != nil {
			return m, fmt.Errorf("setting SELINUX_CONTEXT=%q: %w", set.context, err)
		}
	}
	if m.remap, err = findRemap(at.data); err != nil {
		return m, err
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return m, err
	}
	m.boot = failpoint.Boot(strings.TrimSpace(string(id)))
	m.names = hostnames.New(context.Background(), at.hostPlaces(), log)
	var certificates string
	if err := m.reserve.Retry(func() (err error) { certificates, err = writeCABundle(at.data, set.caBundle); return err }); err != nil {
		return m, err
	}
	m.git, err = git.New(git.Config{
		Program: at.git, UID: uint32(at.fetchUID), GID: uint32(at.fetchUID), Schemes: set.schemes.List(), CABundle: certificates,
		HTTPProxy: set.proxies.http, HTTPSProxy: set.proxies.https, NoProxy: set.proxies.none,
		StallTimeout: at.stallTimeout, Memory: limitMemory(set.gitMemory, log), SizeFactor: set.sizeFactor, WorkTimeout: set.timeouts.work, FetchTimeout: set.timeouts.fetch,
		FetchCPU: set.timeouts.fetchCPU, PostBuffer: set.postBuffer,
		Scheduler: m.scheduler, Go: m.work.Go, Observe: m.counters.Git, Log: log,
	})
	if err != nil {
		return m, err
	}
	version, err := m.git.CheckVersion(context.Background())
	if err != nil {
		return m, err
	}
	if m.mounts, err = newReach(at, log, m.reserve); err != nil {
		return m, err
	}
	if set.csi.endpoint != "" {
		if err := set.csi.checkPropagation(at.data); err != nil {
			return m, err
		}
	}
	log.WithFields(logrus.Fields{
		"volatile": m.features.Volatile, "metacopy": m.features.Metacopy, "git": version, "confinement": m.git.Confinement(),
	}).Info("starting")
	return m, nil
}
