package health

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/hostnames"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/volume"
)

const gib = 1 << 30

// healthy returns the facts of a machine without faults.
func healthy() Facts {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return Facts{
		Now: now, Newest: now.Add(-time.Second), Kernel: "6.12.3-amd64", Landlock: 6, MountWait: 110 * time.Second,
		Features: overlay.Features{Volatile: true, Metacopy: true},
		Space:    disk.Space{Total: disk.Size{Bytes: 100 * gib, Inodes: 1000}, Free: disk.Size{Bytes: 50 * gib, Inodes: 500}},
		MinFree:  0.05, MaxSize: 20 * gib,
		Names:       Names{Servers: []string{"192.0.2.1"}, Files: []hostnames.State{{Name: "/etc/hosts", Since: now}}},
		Credentials: []credential.Info{{Name: "a", Scope: "https://h"}},
	}
}

func TestInspect(t *testing.T) {
	for _, c := range Inspect(healthy()) {
		if c.Status != OK || c.Text == "" || c.Remedy != "" {
			t.Errorf("a healthy machine: got %+v", c)
		}
	}
	for _, tt := range []struct {
		check  string
		change func(*Facts)
		status Status
		text   string // a part of what is found
		remedy string // likewise
	}{
		{"kernel", func(f *Facts) { f.Kernel = "5.10.0-28-amd64" }, Failed, "5.10.0-28-amd64 is too old", "5.12"},
		{"kernel", func(f *Facts) { f.Kernel = "6.1.0" }, Warning, "docker cp can fail", "6.8"},
		{"kernel", func(f *Facts) { f.Kernel = "mine" }, OK, "Linux mine", ""},
		{"overlay", func(f *Facts) { f.Features.Volatile = false }, Warning, "without volatile: each end", "ext4 or xfs"},
		{"overlay", func(f *Facts) { f.Features = overlay.Features{} }, Warning, "volatile and metacopy", "ext4 or xfs"},
		{"mounts", func(f *Facts) { f.Reached = errors.New("lost") }, Failed, "lost", "docker plugin disable -f"},
		{"names", func(f *Facts) { f.Names.Servers = []string{"192.0.2.1", "::1"} }, OK, "they are looked up at 192.0.2.1, ::1", ""},
		{"limits", func(f *Facts) { f.Unlimited = errors.New("no project quotas: do this") }, OK, "can't have the options size and inodes: no project quotas: do this", ""},
		{"limits", func(f *Facts) { f.Ignored = "WORKSPACE_SIZE has no effect" }, Warning, "WORKSPACE_SIZE has no effect", "WORKSPACE_SIZE"},
		{"names", func(f *Facts) { f.Names.Servers = nil }, OK, "/etc/resolv.conf names no server", ""},
		{"names", func(f *Facts) { f.Names.Servers, f.Names.Err = nil, fs.ErrNotExist }, OK, "this machine has no /etc/resolv.conf", ""},
		{"names", func(f *Facts) { f.Names.Files[0].Err = errors.New("gone") }, Warning,
			"192.0.2.1; /etc/hosts is that of 2026-05-01T12:00:00Z, because the host's can't be followed: gone", "repair the file"},
		{"names", func(f *Facts) { f.Names.Files[0] = hostnames.State{Name: "/etc/hosts", Err: errors.New("elsewhere")} }, OK,
			"/etc/hosts is that of the plugin's start, because the host's can't be followed: elsewhere", ""},
		{"names", func(f *Facts) {
			f.Names.Files[0] = hostnames.State{Name: "/etc/hosts", Err: errors.New("elsewhere"), Replaced: true}
		}, Warning,
			"elsewhere; the host has another one since", "docker plugin disable -f"},
		{"audit log", func(f *Facts) { f.Audit, f.Lost = errors.New("no space left"), 3 }, Failed, "no space left; 3 records were lost", "make room"},
		{"audit log", func(f *Facts) { f.Lost = 3 }, Warning, "3 records were lost", "the record lost"},
		{"landlock", func(f *Facts) { f.Landlock = 0 }, Warning, "this kernel has none", "landlock"},
		{"disk", func(f *Facts) { f.Space.Free.Bytes = 4 * gib }, Failed, "4.0 GiB of 100.0 GiB are free, 4.0%: less than the 5% that should stay free (MIN_FREE)", "docker repos df"},
		{"disk", func(f *Facts) { f.MinFree, f.Space.Free.Bytes = 0, gib/2 }, Failed, "less than the 1% that should stay free (whatever MIN_FREE is)", "docker repos df"},
		{"disk", func(f *Facts) { f.Space = disk.Space{} }, OK, "does not say", ""},
		{"inodes", func(f *Facts) { f.Space.Free.Inodes = 49 }, Failed, "49 of 1000 inodes are free", "docker repos df"},
		{"inodes", func(f *Facts) { f.Space.Total.Inodes, f.Space.Free.Inodes = 0, 0 }, OK, "as needed", ""},
		{"clock", func(f *Facts) { f.Now = time.Unix(1000, 0) }, Failed, "1970-01-01", "set the clock"},
		{"clock", func(f *Facts) { f.Newest = f.Now.Add(time.Hour) }, Failed, "a record of 1h0m0s later", "set the clock"},
		{"clock", func(f *Facts) { f.Newest = time.Time{} }, OK, "2026-05-01T12:00:00Z", ""},
		{"settings", func(f *Facts) { f.Subject = 21 * gib }, Warning, "SUBJECT_MAX_SIZE is 21.0 GiB", "below MAX_SIZE"},
		{"settings", func(f *Facts) { f.MaxSize = 96 * gib }, Warning, "the disk has room for 95.0 GiB", "below 95.0 GiB"},
		{"settings", func(f *Facts) { f.MaxSize, f.Subject = 0, 500*gib }, OK, "", ""},
		{"deadlines", func(f *Facts) { f.Deadline = 30 * time.Second }, Warning, "after 30s, before MOUNT_WAIT=1m50s", "--timeout 120"},
		{"deadlines", func(f *Facts) { f.Deadline = 2 * time.Minute }, OK, "", ""},
		{"selinux", func(f *Facts) { f.SELinux = true }, Warning, "SELINUX_CONTEXT is not set", "container_file_t"},
		{"selinux", func(f *Facts) { f.SELinux, f.Context = true, "a:b:c:s0" }, OK, "a:b:c:s0", ""},
		{"userns", func(f *Facts) { f.Remap = &Remap{1000, 1000} }, Warning, "1000:1000", "DEFAULT_OPTS=uid=1000,gid=1000"},
		{"userns", func(f *Facts) {
			f.Remap, f.Defaults = &Remap{1000, 1000}, map[string]string{"uid": "1001", "gid": "1000"}
		}, OK, "", ""},
		{"budget", func(f *Facts) { f.Findings = []Finding{{"too large", true, false}} }, Failed, "too large", "raise the limit"},
		{"budget", func(f *Facts) { f.Findings = []Finding{{"much written", false, false}} }, Warning, "much written", "WORKSPACE_WARN_SIZE"},
		{"budget", func(f *Facts) { f.Findings = []Finding{{"much named", false, true}} }, Warning, "much named", "remove checkpoints"},
		{"credential", func(f *Facts) { f.Credentials[0].Problem = "it is damaged" }, Failed, "it is damaged", "docker repos credentials put"},
		{"credential", func(f *Facts) { f.Credentials[0].Scope = "ssh://git@h/org" }, Failed, "allows https, http", "ALLOW_SCHEMES=ssh"},
		{"credential", func(f *Facts) { f.Credentials[0].Scope, f.Schemes = "ssh://git@h/org", volume.AllSchemes() }, OK, "1 stored", ""},
	} {
		f := healthy()
		tt.change(&f)
		name := fmt.Sprintf("%s %q", tt.check, tt.text)
		for _, c := range Inspect(f) {
			if c.Name != tt.check {
				if c.Status != OK {
					t.Errorf("%s: another check has %+v", name, c)
				}
				continue
			}
			if c.Status != tt.status || !strings.Contains(c.Text, tt.text) || !strings.Contains(c.Remedy, tt.remedy) || (c.Remedy == "") != (c.Status == OK) {
				t.Errorf("%s: got %+v", name, c)
			}
		}
	}
}

// TestInspectIsBounded checks that many findings and credentials make a short list.
func TestInspectIsBounded(t *testing.T) {
	f := healthy()
	for i := range 1000 {
		f.Findings = append(f.Findings, Finding{Text: fmt.Sprint(i)})
		f.Credentials = append(f.Credentials, credential.Info{Name: fmt.Sprint(i), Problem: "x"})
	}
	checks := Inspect(f)
	if len(checks) > 60 {
		t.Errorf("got %d checks", len(checks))
	}
	if worst := (Report{Checks: checks}).Worst(); worst != Failed {
		t.Errorf("the worst is %s", worst)
	}
}

func TestWorst(t *testing.T) {
	for want, list := range map[Status][]Status{OK: {OK, OK}, Warning: {OK, Warning, OK}, Failed: {Warning, Failed, OK, Warning}} {
		r := Report{}
		for _, s := range list {
			r.Checks = append(r.Checks, Check{Status: s})
		}
		if got := r.Worst(); got != want {
			t.Errorf("%v: got %s", list, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 20: "1.0 MiB", 3 << 40: "3.0 TiB", 5000 << 40: "5000.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}
