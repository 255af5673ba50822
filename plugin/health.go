package main

import (
	"bytes"
	"cmp"
	"context"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/admin/health"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/hostnames"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/janitor"
)

// healthTimeout bounds a check of everything.
const healthTimeout = time.Minute

// checkup checks the plugin's health.
type checkup struct {
	machine
	*parts
	asker *health.Asker
}

func newCheckup(m machine, p *parts) *checkup {
	return &checkup{m, p, health.NewAsker(m.set.schemes, m.set.timeouts.ask)}
}

// run implements admin.Health.
func (c *checkup) run(ctx context.Context, remotes bool) health.Report {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	now := c.at.clock()()
	infos := c.clones.Inventory()
	r := health.Report{Time: now, Checks: health.Inspect(c.facts(now, infos))}
	if remotes {
		r.Checks = append(r.Checks, c.asker.Check(ctx, c.remotes(infos))...)
	}
	return r
}

// facts collects what is known, without waiting for anything.
func (c *checkup) facts(now time.Time, infos []clone.Info) health.Facts {
	set := c.set
	f := health.Facts{
		Now: now, Newest: c.newest(infos), Kernel: kernel(), Features: c.features, Landlock: c.git.Landlock(), Reached: c.mounts.check(),
		SELinux: hasSELinux(), Context: set.context,
		MinFree: set.limits.MinFree, MaxSize: set.limits.MaxSize, Subject: set.limits.SubjectMaxSize, Unlimited: c.limits.Unsupported, Ignored: c.limits.Ignored(),
		MountWait: set.mountWait, Deadline: c.docker.Deadline(), Defaults: set.defaults, Credentials: c.credentials.List(), Schemes: set.schemes,
	}
	f.Names.Files = c.names.States()
	f.Names.Servers, f.Names.Err = hostnames.Servers("/etc/resolv.conf")
	f.Lost, f.Audit = c.parts.audit.State()
	var err error
	if f.Space, err = (&stock{data: c.at.data}).Space(); err != nil {
		c.log.WithError(err).Warn("health: the space on the disk is unknown")
	}
	for _, found := range c.janitor.Findings() {
		other := found.Reason == "" || found.Reason == janitor.WorkspaceLimit || found.Reason == janitor.NamedCheckpoints
		f.Findings = append(f.Findings, health.Finding{Text: found.Text, Limit: !other, Named: found.Reason == janitor.NamedCheckpoints})
	}
	if c.remap != nil {
		f.Remap = &health.Remap{UID: c.remap.UID, GID: c.remap.GID}
	}
	return f
}

// newest returns the latest time in the records.
func (c *checkup) newest(infos []clone.Info) (at time.Time) {
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	for _, info := range infos {
		later(info.CreatedAt)
		later(info.Used)
	}
	for _, v := range c.volumes.List() {
		later(v.CreatedAt)
	}
	return at
}

// remotes returns the repositories of all volumes and clones, the last used first, with how each
// is asked.
func (c *checkup) remotes(infos []clone.Info) []health.Remote {
	auth := authFrom(c.credentials, credential.Fetch)
	var list []health.Remote
	add := func(u volume.URL, s volume.Subject, name string) {
		m, err := c.credentials.Match(u, s, name, credential.Fetch)
		list = append(list, health.Remote{URL: u, Via: m.Name, Lent: c.csi != nil, Err: err, Ask: func(ctx context.Context) error {
			_, err := c.git.LsRefs(ctx, git.Remote{
				URL: u.WithoutUser().String(), Auth: func(ctx context.Context, url string) (*git.Auth, error) { return auth(ctx, url, s, name) }, User: u.HTTPUser(),
			})
			return err
		}})
	}
	slices.SortFunc(infos, func(a, b clone.Info) int { return cmp.Or(b.Used.Compare(a.Used), cmp.Compare(a.Key, b.Key)) })
	for _, info := range infos {
		if u, err := volume.ParseURL(info.Repo, volume.AllSchemes()); err == nil {
			add(u, volume.Subject(info.Subject), "")
		}
	}
	for _, v := range c.volumes.List() {
		add(v.Options.Repo, v.Options.Subject, v.Options.Credential)
	}
	return list
}

// kernel returns the kernel's release.
func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// hasSELinux reports whether the kernel runs with SELinux. A managed plugin has no
// /sys/fs/selinux, but the filesystem is registered.
func hasSELinux() bool {
	list, _ := os.ReadFile("/proc/filesystems")
	return bytes.Contains(list, []byte("\tselinuxfs\n"))
}
