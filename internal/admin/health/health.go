// Package health checks whether the plugin can do its work on this machine, and says what to
// do if it can't.
//
// Inspect turns facts into checks, and does no I/O. Remotes asks the hosts of repositories,
// in bounded time and few at once. Texts are for operators: they name volumes and clones of
// all subjects, but have no secret.
package health

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/hostnames"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

// Status says how a check ended.
type Status string

const (
	OK Status = "ok"
	// Warning means that the plugin works, but less well than it could, or not for all.
	Warning Status = "warning"
	// Failed means that something does not work until somebody does something about it.
	Failed Status = "failed"
)

// Check is the result of one check.
type Check struct {
	Name   string // such as disk
	Target string // what was checked, if there are several of the kind: a host, a credential
	Status Status
	Text   string // what was found
	Remedy string // what to do; empty if it is ok
}

// Report is the result of all checks.
type Report struct {
	Time   time.Time // the plugin's clock
	Checks []Check
}

// Worst returns the worst status.
func (r Report) Worst() Status {
	worst := OK
	for _, c := range r.Checks {
		if c.Status == Failed || worst == OK {
			worst = c.Status
		}
	}
	return worst
}

// Facts is what the plugin knows of itself and its machine.
type Facts struct {
	Now    time.Time
	Newest time.Time // the latest time in the records; zero without records

	Kernel   string // its release, such as 6.1.0-13-amd64
	Features overlay.Features
	Landlock int   // the version of the kernel's Landlock; 0 without
	Reached  error // why mounts reach no container; nil if they do
	Names    Names
	Audit    error // why the audit log can't be written; nil if it can, or is off
	Lost     int64 // records of the audit log that were lost since the start
	SELinux  bool  // the kernel enforces, or logs, SELinux
	Context  string

	Space    disk.Space
	MinFree  float64 // the share of the disk that stays free
	MaxSize  int64   // bytes; 0 without a limit
	Subject  int64   // the limit of each subject in bytes; 0 without
	Findings []Finding
	// Unlimited says why the filesystem can't limit what workspaces hold; nil if it can. Ignored says which settings ask
	// for that all the same; empty if none does.
	Unlimited error
	Ignored   string

	MountWait time.Duration
	// Deadline is how long the engine waits for a Mount, if that was learned; otherwise 0.
	Deadline time.Duration

	Remap    *Remap // the engine's --userns-remap; nil without
	Defaults map[string]string

	Credentials []credential.Info
	Schemes     volume.Schemes
}

// Names is what the resolver uses.
type Names struct {
	Servers []string
	Err     error             // why the name servers are not known
	Files   []hostnames.State // those that follow the host's
}

// Remap has the IDs of the containers' root outside of them.
type Remap struct{ UID, GID uint32 }

// restart is what gives an engine's plugin a new process. The plugin does not know under which name the engine has it.
const restart = "run docker plugin disable -f PLUGIN, and then docker plugin enable --timeout 120 PLUGIN, with its name in docker plugin ls"

// Inspect checks the facts.
func Inspect(f Facts) []Check {
	checks := []Check{
		f.kernel(), f.overlay(), f.mounts(), f.names(), f.landlock(), f.disk(), f.inodes(), f.clock(), f.settings(), f.deadlines(), f.selinux(), f.userns(), f.audit(),
		f.limits(),
	}
	checks = append(checks, f.budget()...)
	return append(checks, f.credentials()...)
}

func ok(name, format string, args ...any) Check {
	return Check{Name: name, Status: OK, Text: fmt.Sprintf(format, args...)}
}

func (c Check) warn(remedy string) Check { c.Status, c.Remedy = Warning, remedy; return c }
func (c Check) fail(remedy string) Check { c.Status, c.Remedy = Failed, remedy; return c }

// The plugin needs leastKernel. Since fullKernel it can list the mounts of other namespaces.
var leastKernel, fullKernel = [2]int{5, 12}, [2]int{6, 8}

func (f Facts) kernel() Check {
	c := ok("kernel", "Linux %s", f.Kernel)
	var v [2]int
	if n, _ := fmt.Sscanf(f.Kernel, "%d.%d", &v[0], &v[1]); n < 2 {
		return c
	}
	switch {
	case slices.Compare(v[:], leastKernel[:]) < 0:
		c.Text += " is too old"
		return c.fail("use Linux 5.12 or newer")
	case slices.Compare(v[:], fullKernel[:]) < 0:
		c.Text += ", which can't tell whether a container still has a workspace: after a crash docker cp can fail until the container is restarted"
		return c.warn("use Linux 6.8 or newer")
	}
	return c
}

func (f Facts) overlay() Check {
	c := ok("overlay", "volatile and metacopy work")
	var missing, costs []string
	if !f.Features.Volatile {
		missing, costs = append(missing, "volatile"), append(costs, "each end of a workspace syncs the whole filesystem")
	}
	if !f.Features.Metacopy {
		missing, costs = append(missing, "metacopy"), append(costs, "a change of mode or owner copies the file, and git clone --local of a workspace fails")
	}
	if len(missing) == 0 {
		return c
	}
	c.Text = fmt.Sprintf("overlays work without %s: %s", strings.Join(missing, " and "), strings.Join(costs, ", and "))
	return c.warn("put the engine's data on ext4 or xfs, with Linux 5.12 or newer")
}

func (f Facts) mounts() Check {
	if f.Reached != nil {
		c := ok("mounts", "%v", f.Reached)
		return c.fail(restart)
	}
	return ok("mounts", "they reach the engine")
}

// names finds host names that are looked up in another way than on the host.
func (f Facts) names() Check {
	c := ok("names", "they are looked up at %s", strings.Join(f.Names.Servers, ", "))
	switch {
	case errors.Is(f.Names.Err, fs.ErrNotExist):
		c.Text = "this machine has no /etc/resolv.conf"
	case f.Names.Err != nil:
		c.Text = fmt.Sprintf("the name servers are unknown: %v", f.Names.Err)
	case len(f.Names.Servers) == 0:
		c.Text = "/etc/resolv.conf names no server"
	}
	var replaced, lost bool
	for _, file := range f.Names.Files {
		if file.Err != nil {
			c.Text += fmt.Sprintf("; %v", file)
			replaced = replaced || file.Replaced
			lost = lost || !file.Since.IsZero()
		}
	}
	switch {
	case replaced:
		c.Text += "; the host has another one since"
		return c.warn(restart + ": the engine then gives the plugin the new file")
	case lost:
		return c.warn("repair the file on the engine's machine: the plugin uses it within a second")
	}
	return c
}

func (f Facts) audit() Check {
	lost := ""
	if f.Lost > 0 {
		lost = fmt.Sprintf("; %d records were lost since the start", f.Lost)
	}
	if f.Audit != nil {
		return ok("audit log", "it can't be written: %v%s", f.Audit, lost).fail("make room on the disk: the plugin tries again")
	}
	if lost != "" {
		return ok("audit log", "it is written again%s", lost).warn("the record lost in the audit log says where they are missing")
	}
	return ok("audit log", "it is written, or off (AUDIT_SIZE=0)")
}

func (f Facts) landlock() Check {
	if f.Landlock == 0 {
		c := ok("landlock", "this kernel has none: git is confined by its uid, without capabilities, alone")
		return c.warn("use a kernel with Landlock (Linux 5.13 or newer, with landlock in its parameter lsm=)")
	}
	return ok("landlock", "version %d confines git", f.Landlock)
}

// leastFree is the share of the disk below which it counts as full if MIN_FREE is lower: with
// less, a filesystem is slow, and the next clone fails. The alert ReposDiskNearlyFull has it too.
const leastFree = 0.01

func (f Facts) disk() Check {
	return f.space("disk", f.Space.Free.Bytes, f.Space.Total.Bytes, "", Bytes)
}

func (f Facts) inodes() Check {
	if f.Space.Total.Inodes == 0 {
		return ok("inodes", "the filesystem makes them as needed")
	}
	return f.space("inodes", f.Space.Free.Inodes, f.Space.Total.Inodes, " inodes", func(n int64) string { return fmt.Sprint(n) })
}

func (f Facts) space(name string, free, total int64, unit string, show func(int64) string) Check {
	c := ok(name, "%s of %s%s are free", show(free), show(total), unit)
	if total <= 0 {
		c.Text = "the filesystem does not say how large it is"
		return c
	}
	least, why := f.MinFree, "MIN_FREE"
	if least < leastFree {
		least, why = leastFree, "whatever MIN_FREE is"
	}
	if share := float64(free) / float64(total); share < least {
		c.Text += fmt.Sprintf(", %.1f%%: less than the %g%% that should stay free (%s)", share*100, least*100, why)
		return c.fail("see who holds the space with docker repos df, and evict with docker repos evict; if it is not the plugin, free space elsewhere on this filesystem")
	}
	return c
}

// maxAhead is how far a record may be ahead of the clock.
const maxAhead = time.Minute

// oldest is before this code was written: a machine without a clock starts in 1970.
var oldest = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

func (f Facts) clock() Check {
	c := ok("clock", "%s", f.Now.UTC().Format(time.RFC3339))
	switch ahead := f.Newest.Sub(f.Now); {
	case f.Now.Before(oldest):
		return c.fail("set the clock of the engine's machine: certificates count as not valid yet")
	case ahead > maxAhead:
		c.Text += fmt.Sprintf(", and the plugin has a record of %v later: the clock was put back, or was ahead then", ahead.Round(time.Second))
		return c.fail("set the clock of the engine's machine; until it has caught up, ages and the order of eviction are wrong")
	}
	return c
}

func (f Facts) settings() Check {
	c := ok("settings", "they fit together, and the disk")
	room := int64(float64(f.Space.Total.Bytes) * (1 - f.MinFree))
	switch {
	case f.MaxSize > 0 && f.Subject > f.MaxSize:
		c.Text = fmt.Sprintf("SUBJECT_MAX_SIZE is %s, and MAX_SIZE for all subjects together %s", Bytes(f.Subject), Bytes(f.MaxSize))
		return c.warn("set SUBJECT_MAX_SIZE below MAX_SIZE, or to 0")
	case f.MaxSize > 0 && f.Space.Total.Bytes > 0 && f.MaxSize > room:
		c.Text = fmt.Sprintf("MAX_SIZE is %s, and the disk has room for %s beside MIN_FREE: eviction begins when the disk is full", Bytes(f.MaxSize), Bytes(room))
		return c.warn(fmt.Sprintf("set MAX_SIZE below %s, or use a larger disk", Bytes(room)))
	}
	return c
}

// limits says whether workspaces can have limits.
func (f Facts) limits() Check {
	switch {
	case f.Ignored != "":
		c := ok("limits", "%s", f.Ignored)
		return c.warn("switch project quotas on, or set WORKSPACE_SIZE, WORKSPACE_INODES and their maxima to 0")
	case f.Unlimited != nil:
		return ok("limits", "volumes can't have the options size and inodes: %v", f.Unlimited)
	}
	return ok("limits", "the filesystem holds what the options size and inodes say")
}

func (f Facts) deadlines() Check {
	c := ok("deadlines", "a mount may take %v, and no shorter limit of the engine was seen", f.MountWait)
	if f.Deadline > 0 && f.Deadline < f.MountWait {
		c.Text = fmt.Sprintf("the engine gives up on a mount after %v, before MOUNT_WAIT=%v has passed", f.Deadline.Round(time.Second), f.MountWait)
		return c.warn(restart)
	}
	return c
}

func (f Facts) selinux() Check {
	switch {
	case !f.SELinux:
		return ok("selinux", "this kernel runs without it")
	case f.Context == "":
		c := ok("selinux", "this kernel runs with it, and SELINUX_CONTEXT is not set")
		return c.warn("if the engine runs with --selinux-enabled, set SELINUX_CONTEXT=system_u:object_r:container_file_t:s0")
	}
	return ok("selinux", "workspaces have the context %s", f.Context)
}

func (f Facts) userns() Check {
	if f.Remap == nil {
		return ok("userns", "the engine maps no users")
	}
	want := fmt.Sprintf("uid=%d,gid=%d", f.Remap.UID, f.Remap.GID)
	c := ok("userns", "the engine maps root of its containers to %d:%d (--userns-remap)", f.Remap.UID, f.Remap.GID)
	var uid, gid uint32
	fmt.Sscan(f.Defaults["uid"], &uid)
	fmt.Sscan(f.Defaults["gid"], &gid)
	if uid < f.Remap.UID || gid < f.Remap.GID {
		c.Text += ", and a volume without the options uid and gid has files of nobody"
		return c.warn("set DEFAULT_OPTS=" + want + ", or give each volume these options")
	}
	return c
}

func (f Facts) credentials() []Check {
	var list []Check
	for _, info := range f.Credentials {
		scheme, _, _ := strings.Cut(info.Scope, "://")
		c := Check{Name: "credential", Target: info.Name}
		switch {
		case info.Problem != "":
			c.Text = "it can't be used: " + info.Problem
			c = c.fail("store it again with docker repos credentials put, or remove it")
		case !f.Schemes.Allows(scheme):
			c.Text = fmt.Sprintf("it is for %s, and the setting ALLOW_SCHEMES allows %s", info.Scope, strings.Join(f.Schemes.List(), ", "))
			c = c.fail("set ALLOW_SCHEMES=" + allowing(f.Schemes, scheme) + ", or remove the credential")
		default:
			continue
		}
		if list = append(list, c); len(list) == mostFindings {
			return list
		}
	}
	if len(list) == 0 {
		list = append(list, ok("credential", "%d stored, and all can be used", len(f.Credentials)))
	}
	return list
}

// allowing returns the value of ALLOW_SCHEMES that allows one more scheme.
func allowing(s volume.Schemes, scheme string) string {
	list := slices.DeleteFunc(s.List(), func(s string) bool { return s == "https" || s == "http" })
	return strings.Join(append(list, scheme), ",")
}

// Bytes shows a number of bytes.
func Bytes(n int64) string {
	value, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && len(units) > 1 {
		value, units = value/1024, units[1:]
	}
	if units[0] == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}
