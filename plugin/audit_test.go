package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testdir"
)

// audited stops the plugin and returns the records of the audit log.
func (p *process) audited() (list []api.AuditRecord) {
	p.t.Helper()
	p.stop()
	data, err := os.ReadFile(filepath.Join(p.at.data, "audit/audit.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var r api.AuditRecord
		if err := json.Unmarshal(line, &r); err != nil {
			p.t.Fatalf("%v: %s", err, line)
		}
		list = append(list, r)
	}
	return list
}

func actionsOf(list []api.AuditRecord) (names []string) {
	for _, r := range list {
		names = append(names, r.Action+" "+r.Result)
	}
	return names
}

// TestAuditOfVolumes: each change of a volume and its leases is in the audit log, in order, with
// what it was about, and the ID of the volume.
func TestAuditOfVolumes(t *testing.T) {
	t.Parallel()
	s := remote(t)
	base := scratch(t)
	p := startWith(t, base, func(at *places) { at.idle = true })
	options := map[string]string{"repo": s.URL("sample"), "ref": "main", "subject": "team"}
	p.create("v", options)
	p.create("v", options) // changes nothing
	id, _ := p.get("v").Status["volume_id"].(string)
	dir := p.mount("v", "1")
	p.mount("v", "1") // docker cp
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(t.Context(), "v"); err == nil {
		t.Error("a mounted volume was removed")
	}
	p.unmount("v", "1")
	p.unmount("v", "1")
	p.unmount("v", "1") // changes nothing
	p.waitFor("it is kept as a checkpoint")
	if err := errors.Join(p.Remove(t.Context(), "v"), p.Remove(t.Context(), "v")); err != nil {
		t.Error(err)
	}
	if p.tryMount("v", "2") == nil {
		t.Error("a volume that was removed was mounted")
	}
	if p.tryCreate("w", map[string]string{"repo": s.URL("sample"), "colour": "red"}) == nil {
		t.Error("a wrong option was accepted")
	}
	list := p.audited()
	want := []string{
		"start ok", "settings ok", "volume.create ok", "mount ok", "mount ok", "volume.remove failed", "unmount ok", "unmount ok",
		"volume.remove ok", "mount failed", "volume.create failed", "stop ok",
	}
	if got := actionsOf(list); !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	if c := list[1].Changes["MIN_FREE"]; c != (api.Change{From: "5%", To: "0"}) {
		t.Errorf("the settings of the first start: %v", list[1].Changes)
	}
	commit := list[3].Commit
	for i, r := range list[2:9] {
		if r.VolumeID != id || r.Request == "" || r.Actor.Kind != "engine" || r.Volume != "v" || r.Subject != "team" || r.Repo != s.URL("sample") ||
			r.Ref != "main" || r.Clone == "" {
			t.Errorf("record %d: %+v", i+2, r)
		}
		if of := r.Action; (of == "mount" || of == "unmount") && (r.Commit != commit || commit == "" || r.Workspace != list[3].Workspace) {
			t.Errorf("record %d: %+v", i+2, r)
		}
	}
	if a, b := list[3].Lease, list[4].Lease; a != "1" || b != "1#2" || list[6].Lease != b || list[7].Lease != a {
		t.Errorf("leases %q, %q, released %q, %q", a, b, list[6].Lease, list[7].Lease)
	}
	if r := list[9]; r.Volume != "v" || r.VolumeID != "" || r.Error == "" {
		t.Errorf("the mount of an unknown volume: %+v", r)
	}

	// The next start has nothing to say about settings, and a volume that begins with a checkpoint has another ID.
	p = startWith(t, base, func(at *places) { at.idle = true })
	checkpoint := p.checkpoints(t, 1)[0].ID
	p.create("r", map[string]string{"repo": s.URL("sample"), "subject": "team", "from": checkpoint})
	list = p.audited()[len(want):]
	if got, want := actionsOf(list), []string{"start ok", "volume.create ok", "stop ok"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if r := list[1]; r.Checkpoint != checkpoint || r.VolumeID == id || r.VolumeID == "" || r.Subject != "team" {
		t.Errorf("%+v", r)
	}
}

// TestAuditOfEvictions: what the janitor evicts is recorded with the reason and the size.
func TestAuditOfEvictions(t *testing.T) {
	t.Parallel()
	s := remote(t)
	var later atomic.Int64
	p := startWith(t, scratch(t), func(at *places) {
		at.idle = true
		at.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	})
	p.create("v", map[string]string{"repo": s.URL("sample")})
	dir := p.mount("v", "1")
	if err := os.WriteFile(filepath.Join(dir, "new"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	p.unmount("v", "1")
	p.checkpoints(t, 1)
	later.Store(int64(25 * time.Hour))
	admin := api.Dial(filepath.Join(filepath.Dir(p.at.socket), adminSocket))
	admin.Claim = "a\nb"
	if _, err := admin.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := p.audited()
	i := slices.IndexFunc(list, func(r api.AuditRecord) bool { return r.Action == "evict" })
	if i < 0 {
		t.Fatalf("%q", actionsOf(list))
	}
	if r := list[i]; r.Kind != "checkpoint" || r.Reason != "expired" || r.Actor.Kind != "user" || *r.Actor.UID != 0 || r.Actor.Claim != "a?b" || r.Bytes < 1<<20 ||
		r.Volume != "v" || r.Subject != "default" || r.ID == "" {
		t.Errorf("%+v", r)
	}
}

// TestAuditOfLostLeases: a lease that ends without an Unmount is recorded too, as after a boot.
func TestAuditOfLostLeases(t *testing.T) {
	t.Parallel()
	s := remote(t)
	base := scratch(t)
	p := start(t, base)
	p.create("v", map[string]string{"repo": s.URL("sample"), "subject": "team"})
	id, _ := p.get("v").Status["volume_id"].(string)
	p.mount("v", "1")
	p.stop()
	if err := testdir.DetachBelow(filepath.Join(p.at.data, "mnt")); err != nil {
		t.Fatal(err)
	}
	p = start(t, base)
	list := p.audited()
	i := slices.IndexFunc(list, func(r api.AuditRecord) bool { return r.Action == "lease.lost" })
	if i < 0 {
		t.Fatalf("%q", actionsOf(list))
	}
	if r := list[i]; r.Lease != "1" || r.Volume != "v" || r.VolumeID != id || r.Subject != "team" || r.Commit == "" || r.Actor.Kind != "plugin" {
		t.Errorf("%+v", r)
	}
}

// TestAuditSwitchedOff: the last record says that the log was switched off.
func TestAuditSwitchedOff(t *testing.T) {
	t.Parallel()
	base := scratch(t)
	start(t, base).stop()
	for range 2 {
		p := start(t, base, "AUDIT_SIZE=0")
		list := p.audited()
		want := []string{"start ok", "settings ok", "stop ok", "start ok", "settings ok", "stop ok"}
		if got := actionsOf(list); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if c := list[4].Changes["AUDIT_SIZE"]; c != (api.Change{From: "64MiB", To: "0"}) {
			t.Errorf("%v", list[4].Changes)
		}
	}
	empty := start(t, scratch(t), "AUDIT_SIZE=0")
	empty.stop()
	if _, err := os.Stat(filepath.Join(empty.at.data, "audit")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without an audit log: %v", err)
	}
}
