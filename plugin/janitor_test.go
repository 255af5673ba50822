package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestTTL checks that unused clones are evicted, checkpoints first. Clones that are in use or have a kept
// workspace stay. A plan lists the evictions in advance.
func TestTTL(t *testing.T) {
	t.Parallel()
	b := newBudget(t, true, "TTL=336h", "CHECKPOINT_TTL=24h")
	b.use("idle", false)
	b.use("worked", true)
	b.create("used", map[string]string{"repo": b.server.URL("sample"), "subject": "used"})
	b.mount("used", "1")
	b.create("kept", map[string]string{"repo": b.server.URL("sample"), "subject": "kept", "mode": "keep"})
	b.write(b.mount("kept", "1"))
	b.unmount("kept", "1")
	if n := len(b.settled()); n != 4 {
		t.Fatalf("%d clones, want 4", n)
	}
	b.expect("at once", b.sweep())

	b.pass(25 * time.Hour)
	plan, err := b.admin.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.expect("plan after a day", inWords(plan.Evictions), "expired checkpoint worked")
	if checkpoints, err := b.admin.Checkpoints(t.Context(), api.Filter{}); err != nil || len(checkpoints) != 1 {
		t.Errorf("a plan evicted something: %v, %v", checkpoints, err)
	}
	b.expect("after a day", b.sweep(), "expired checkpoint worked")

	b.pass(14*24*time.Hour - 25*time.Hour)
	b.expect("after two weeks", b.sweep(), "ttl clone idle", "ttl clone worked")
	clones := b.settled()
	if len(clones) != 2 || clones["used"].Held != janitor.Leased.String() || clones["kept"].Held != janitor.Kept.String() {
		t.Errorf("left: %+v", clones)
	}
	if data, err := os.ReadFile(filepath.Join(b.mount("kept", "2"), "work")); string(data) != "work" {
		t.Errorf("the file of the kept workspace: %q, %v", data, err)
	}

	// A volume whose clone was evicted clones again.
	before := b.server.Stats("sample").Clones
	if a := testgit.About(t, b.mount("idle", "2")); a["reused"] != false || b.server.Stats("sample").Clones != before+1 {
		t.Errorf("idle: %v, %d clones; want a new clone", a, b.server.Stats("sample").Clones-before)
	}
	var evicted int
	events, err := b.admin.Events(t.Context())
	for _, e := range events {
		if e.Type == string(janitor.Evicted) && e.Size.Bytes > 0 && e.Text != "" {
			evicted++
		}
	}
	if err != nil || evicted != 3 {
		t.Errorf("%d evictions among %+v, %v; want 3", evicted, events, err)
	}
}

// TestClockJumpEvictsLittle checks that a sweep evicts little after the clock jumps ahead by years.
func TestClockJumpEvictsLittle(t *testing.T) {
	t.Parallel()
	b := newBudget(t, true)
	for i := range 4 {
		b.use(fmt.Sprint(i), true)
	}
	b.settled()
	b.pass(10 * 365 * 24 * time.Hour)
	b.expect("after ten years", b.sweep(), "expired checkpoint 0", "ttl clone 0")
	b.expect("sweeping again", b.sweep(), "expired checkpoint 1", "ttl clone 1")
	b.mount("2", "2") // records the use
	b.expect("a third time", b.sweep(), "expired checkpoint 2")
	b.expect("a fourth time", b.sweep(), "expired checkpoint 3", "ttl clone 3")
	b.expect("a fifth time", b.sweep())
}

// own returns what the plugin's own files take, in bytes. They count for MAX_SIZE.
func (b *budget) own() int64 {
	b.t.Helper()
	stats, err := b.admin.Stats(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var blocks int64
	for _, name := range []string{"meta.db", "reserve"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(b.at.data, name), &st); err != nil {
			b.t.Fatal(err)
		}
		blocks += st.Blocks
	}
	if got := stats.Own.Bytes; got != 512*blocks {
		b.t.Errorf("own files take %d bytes, want %d", got, 512*blocks)
	}
	return stats.Own.Bytes
}

// TestMaxSize checks that the least recently used clones are evicted until the limit holds, and then
// checkpoints with their clones.
func TestMaxSize(t *testing.T) {
	t.Parallel()
	b := newBudget(t, false)
	for i := range 4 {
		b.use(fmt.Sprint(i), i == 3)
		b.pass(time.Hour)
	}
	var total int64
	for _, c := range b.settled() {
		total += c.Size.Bytes
	}
	limit := b.own() + total*6/10
	b.start(t, fmt.Sprintf("MAX_SIZE=%dB", limit))
	b.expect("max size", b.evicted(), "evicted max_size clone 0", "evicted max_size clone 1")
	stats, err := b.admin.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(stats.Counts) != 1 || stats.Last.Left.Used.Bytes > limit || len(stats.Last.Left.Missing) > 0 {
		t.Errorf("%+v", stats)
	}
	if _, err := os.Stat(filepath.Join(b.at.data, "clones", "0")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of an evicted clone's subject: %v", err)
	}
	b.start(t, fmt.Sprintf("MAX_SIZE=%dB", b.own()+total*3/10))
	b.expect("less room", b.evicted(), "evicted max_size clone 2")
	b.start(t, fmt.Sprintf("MAX_SIZE=%dB", b.own()+total*42/100))
	b.mount("0", "2")
	b.expect("a checkpoint last, with its clone", b.evicted(), "evicted max_size checkpoint 3", "evicted max_size clone 3")
	if data := b.taken(); data > b.own()+total/2 { // also what no limit counts, such as the marker
		t.Errorf("the data directory takes %d bytes", data)
	}
}

// evicted sweeps, and returns the evictions since the start.
func (b *budget) evicted() (list []string) {
	b.t.Helper()
	b.settled()
	b.sweep() // also waits for the sweep of the start
	events, err := b.admin.Events(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, e := range events {
		if list = append(list, fmt.Sprint(e.Type, " ", e.Reason, " ", e.Kind, " ", e.Subject)); e.Type == string(janitor.Started) {
			list = nil // those are of earlier starts
		}
	}
	return list
}

// taken waits until the trash is empty, and returns what the data directory takes.
func (b *budget) taken() int64 {
	b.t.Helper()
	b.poll(func() error {
		stats, err := b.admin.Stats(b.t.Context())
		if entries, _ := os.ReadDir(filepath.Join(b.at.data, "trash")); err == nil && (stats.Trash.Bytes > 0 || len(entries) > 0) {
			err = fmt.Errorf("%d bytes, %d entries are being deleted", stats.Trash.Bytes, len(entries))
		}
		return err
	})
	size, err := disk.Measure(b.t.Context(), b.at.data)
	if err != nil {
		b.t.Fatal(err)
	}
	return size.Bytes
}

// TestCloneLargerThanMaxSize checks that clones that exceed MAX_SIZE on their own stay while they are in use, and
// for a while after that. Then they are evicted, and Status says why.
func TestCloneLargerThanMaxSize(t *testing.T) {
	t.Parallel()
	b := newBudget(t, true)
	for _, subject := range []string{"worked", "removed", "mounted"} {
		b.use(subject, subject == "worked")
		b.pass(time.Second)
	}
	if err := b.Remove(t.Context(), "removed"); err != nil {
		t.Fatal(err)
	}
	smallest := int64(1 << 60)
	for _, c := range b.settled() {
		smallest = min(smallest, c.Size.Bytes-c.Classes.Checkpoint.Bytes)
	}
	b.start(t, fmt.Sprintf("MAX_SIZE=%dB", b.own()+smallest/2))
	b.mount("mounted", "2")
	b.expect("between two mounts", b.sweep())
	b.pass(time.Minute)
	b.expect("when nobody has used them for a while", b.sweep(),
		"max_size checkpoint worked", "max_size clone worked", "max_size clone removed")
	if clones := b.settled(); len(clones) != 1 || clones["mounted"].Held != janitor.Leased.String() {
		t.Errorf("left: %+v", clones)
	}
	for _, name := range []string{"mounted", "worked"} {
		warnings := fmt.Sprint(b.get(name).Status["warnings"])
		if !strings.Contains(warnings, "on its own: it is evicted when nobody has used it for 1m0s, and its next mount clones again") {
			t.Errorf("%s: warnings %s", name, warnings)
		}
	}
	b.unmount("mounted", "2")
	b.settled()
	b.expect("at the end of a long use", b.sweep())
	b.pass(time.Minute)
	b.expect("and a while after that", b.sweep(), "max_size clone mounted")
	if list, err := b.admin.Clones(t.Context(), api.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}

// TestSubjectMaxSize checks that a subject above its limit loses only its own clones.
func TestSubjectMaxSize(t *testing.T) {
	t.Parallel()
	b := newBudget(t, false)
	second := testgit.Remote(t, "sample", gitserver.Spec{Seed: 2, Files: 300, Commits: 5, Changes: 10})
	b.use("modest", false)
	b.pass(time.Hour)
	b.use("greedy", false)
	b.pass(time.Hour)
	b.create("more", map[string]string{"repo": second.URL("sample"), "subject": "greedy"})
	b.mount("more", "1")
	var largest int64
	for _, c := range b.settled() {
		largest = max(largest, c.Size.Bytes)
	}
	b.start(t, fmt.Sprintf("SUBJECT_MAX_SIZE=%dB", largest*15/10))
	b.sweep()
	events, err := b.admin.Events(t.Context())
	if err != nil || len(events) != 1 || events[0].Subject != "greedy" || events[0].Reason != string(janitor.SubjectMaxSize) {
		t.Errorf("%+v, %v", events, err)
	}
	clones, err := b.admin.Clones(t.Context(), api.Filter{})
	if err != nil || len(clones) != 2 {
		t.Errorf("left: %+v, %v", clones, err)
	}
	for _, c := range clones {
		of, err := b.admin.Clones(t.Context(), api.Filter{Subject: c.Subject})
		if err != nil || !reflect.DeepEqual(of, []api.Clone{c}) {
			t.Errorf("of %s: %+v, %v", c.Subject, of, err)
		}
	}
}

// TestStartFresh checks that a clone can't be evicted while it is in use or checkpoints need it.
func TestStartFresh(t *testing.T) {
	t.Parallel()
	b := newBudget(t, false)
	b.create("v", map[string]string{"repo": b.server.URL("sample"), "subject": "team a"})
	b.write(b.mount("v", "1"))
	key := b.settled()["team a"].Clone
	refused := func(words string) {
		t.Helper()
		var answer *api.Error
		if _, err := b.admin.EvictClone(t.Context(), key); !errors.As(err, &answer) || answer.Status != 409 || !strings.Contains(answer.Message, words) {
			t.Errorf("got %v, want %q", err, words)
		}
	}
	refused("in use by a container")
	b.unmount("v", "1")
	b.poll(func() error {
		checkpoints, err := b.admin.Checkpoints(t.Context(), api.Filter{})
		if err == nil && len(checkpoints) == 0 {
			err = errors.New("no checkpoint yet")
		}
		return err
	})
	b.settled()
	refused("it has checkpoints")
	checkpoints, err := b.admin.Checkpoints(t.Context(), api.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.admin.RemoveCheckpoint(t.Context(), checkpoints[0].ID); err != nil {
		t.Fatal(err)
	}
	b.settled()
	if _, err := b.admin.EvictClone(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if clones, err := b.admin.Clones(t.Context(), api.Filter{}); err != nil || len(clones) != 0 {
		t.Errorf("left: %+v, %v", clones, err)
	}
	var answer *api.Error
	if _, err := b.admin.EvictClone(t.Context(), key); !errors.As(err, &answer) || answer.Status != 404 {
		t.Errorf("evict again: %v, want status 404", err)
	}
	if a := testgit.About(t, b.mount("v", "2")); a["reused"] != false || b.server.Stats("sample").Clones != 2 {
		t.Errorf("the clone was reused: %v, %d clones", a, b.server.Stats("sample").Clones)
	}
}

// TestSubjectMaxLeases checks that the error names the volumes that have the leases.
func TestSubjectMaxLeases(t *testing.T) {
	t.Parallel()
	b := newBudget(t, false, "SUBJECT_MAX_LEASES=2")
	for _, name := range []string{"v", "w"} {
		b.create(name, map[string]string{"repo": b.server.URL("sample")})
	}
	b.create("other", map[string]string{"repo": b.server.URL("sample"), "subject": "other"})
	b.mount("v", "1")
	b.mount("v", "2")
	for _, name := range []string{"v", "w"} {
		if err := b.tryMount(name, "3"); err == nil || !strings.Contains(err.Error(), `SUBJECT_MAX_LEASES allows 2: end a container of the volumes "v" (2)`) {
			t.Errorf("a third mount: %v", err)
		}
	}
	b.mount("other", "1")
	b.unmount("v", "1")
	b.mount("w", "3")
}

// TestStatus checks that Status shows sizes with the time of their measurement, and that a volume with
// too much written data causes one warning.
func TestStatus(t *testing.T) {
	t.Parallel()
	b := newBudget(t, true, "WORKSPACE_WARN_SIZE=1MiB")
	b.create("v", map[string]string{"repo": b.server.URL("sample")})
	dir := b.mount("v", "1")
	if got := b.get("v").Status["warnings"]; fmt.Sprint(got) != "[]" {
		t.Errorf("warnings %v, want none", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "large"), make([]byte, 3<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	b.pass(10 * time.Minute) // workspaces in use are measured every 30 s
	b.poll(func() error {
		status := b.get("v").Status
		for _, name := range []string{"store", "tree", "workspace"} {
			if status[name+"_bytes"] == 0.0 || status[name+"_measured_at"] == nil || name == "workspace" && status[name+"_bytes"].(float64) < 3<<20 {
				return fmt.Errorf("%s is not measured: %v", name, status)
			}
		}
		return nil
	})
	for range 2 {
		b.expect("sweep", b.sweep())
	}
	warnings, _ := b.get("v").Status["warnings"].([]any)
	if len(warnings) != 1 || !strings.Contains(fmt.Sprint(warnings), `volume "v" has 3.`) || !strings.Contains(fmt.Sprint(warnings), "more than WORKSPACE_WARN_SIZE=1.0 MiB") {
		t.Errorf("warnings: %v", warnings)
	}
	events, err := b.admin.Events(t.Context())
	if err != nil || len(events) != 1 || events[0].Type != string(janitor.Warning) || events[0].Volume != "v" || events[0].Size.Bytes < 3<<20 {
		t.Errorf("events: %+v, %v", events, err)
	}
	if line, _ := b.log.find("more than WORKSPACE_WARN_SIZE"); !strings.HasPrefix(line, "warning: ") {
		t.Errorf("the log line is not a warning: %q", line)
	}
}

// TestIdleSweepReadsNothing checks that a sweep without evictions opens no directory and
// no file.
func TestIdleSweepReadsNothing(t *testing.T) {
	t.Parallel()
	b := newBudget(t, true)
	for i := range 3 {
		b.use(fmt.Sprint(i), true)
	}
	b.settled()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	watched := 0
	if err := filepath.WalkDir(filepath.Join(b.at.data, "clones"), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		watched++
		_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_ACCESS)
		return err
	}); err != nil || watched < 30 {
		t.Fatalf("%d directories: %v", watched, err)
	}
	buf := make([]byte, 1<<16)
	for { // drop the events of the walk itself
		if _, err := unix.Read(fd, buf); err != nil {
			break
		}
	}
	b.expect("sweep", b.sweep())
	if n, err := unix.Read(fd, buf); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the sweep read something: %d bytes of events, %v", n, err)
	}
	if _, err := os.ReadDir(filepath.Join(b.at.data, "clones")); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(fd, buf); n <= 0 || err != nil {
		t.Errorf("inotify does not report a read: %v", err)
	}
}
