package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/tests/testdisk"
)

func testConfig(dir string) Config {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return Config{Dir: dir, Size: MinSize, Log: log, Now: time.Now}
}

// open opens a log until the end of the test.
func open(t *testing.T, c Config) *Trail {
	t.Helper()
	l := Open(c)
	t.Cleanup(l.Close)
	return l
}

// follow returns the next n records that filter selects, and waits for them.
func follow(t *testing.T, l *Trail, filter api.AuditFilter, n int) (list []api.AuditRecord) {
	t.Helper()
	filter.Follow = true
	done := errors.New("done")
	err := l.Read(t.Context(), filter, func(line []byte) error {
		list = append(list, record(t, line))
		if len(list) == n {
			return done
		}
		return nil
	}, nil)
	if err != done {
		t.Fatalf("after %d records: %v", len(list), err)
	}
	return list
}

// record decodes a line, which must have no field that AuditRecord does not know.
func record(t *testing.T, line []byte) (r api.AuditRecord) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		t.Fatalf("%v: %.200q", err, line)
	}
	return r
}

// onDisk returns the records of all files, oldest first. Every line must be whole.
func onDisk(t *testing.T, dir string) (list []api.AuditRecord) {
	t.Helper()
	old, err := older(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range old {
		names = append(names, o.name)
	}
	for _, name := range append(names, currentName) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != 0o600 || info.Size() > MinSize/Files {
			t.Errorf("%s: %v, %d bytes", name, info.Mode(), info.Size())
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			list = append(list, record(t, line))
		}
	}
	return list
}

// numbered checks that the numbers have no gap, except those that a record explains.
func numbered(t *testing.T, list []api.AuditRecord) {
	t.Helper()
	for i, r := range list {
		if i > 0 && r.Seq != list[i-1].Seq+r.Lost+1 {
			t.Errorf("record %d, %s, comes after %d, and says that %d are lost", r.Seq, r.Action, list[i-1].Seq, r.Lost)
		}
		if i > 0 && r.Time.Before(list[i-1].Time) {
			t.Errorf("record %d is older than the one before", r.Seq)
		}
	}
}

func actions(list []api.AuditRecord) (names []string) {
	for _, r := range list {
		names = append(names, r.Action)
	}
	return names
}

func TestRecord(t *testing.T) {
	c := testConfig(filepath.Join(t.TempDir(), "audit"))
	l := open(t, c)
	user := origin.ForVolume(origin.Begin(t.Context(), origin.NewUser(0, "alice")), "v1")
	engine := origin.Begin(t.Context(), origin.Actor{Kind: origin.Engine})
	l.Record(user, api.AuditRecord{Action: "warm", Bytes: 7}, nil)
	l.Record(engine, api.AuditRecord{Action: "mount", Volume: "src"}, errors.New("no"))
	l.Record(t.Context(), api.AuditRecord{Action: "evict"}, nil)
	l.Record(user, api.AuditRecord{Action: "evict", Actor: Own}, nil)
	got := follow(t, l, api.AuditFilter{}, 5)
	uid, asked, called := int64(0), origin.Of(user).Request, origin.Of(engine).Request
	want := []api.AuditRecord{
		{Action: "start", Result: "ok", Actor: Own},
		{Action: "warm", Result: "ok", Actor: api.Actor{Kind: "user", UID: &uid, Claim: "alice"}, Request: asked, VolumeID: "v1", Bytes: 7},
		{Action: "mount", Result: "failed", Error: "no", Actor: api.Actor{Kind: "engine"}, Request: called, Volume: "src"},
		{Action: "evict", Result: "ok", Actor: Own},
		{Action: "evict", Result: "ok", Actor: Own, Request: asked, VolumeID: "v1"},
	}
	for i := range want {
		want[i].Seq, want[i].Time = int64(i+1), got[i].Time
		a, _ := json.Marshal(got[i])
		b, _ := json.Marshal(want[i])
		if !bytes.Equal(a, b) {
			t.Errorf("got  %s\nwant %s", a, b)
		}
	}
	var none *Trail
	none.Record(t.Context(), api.AuditRecord{Action: "mount"}, nil)
	none.Close()
	if info, err := os.Stat(c.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, %v", info, err)
	}
}

// TestOrder: records of concurrent callers are all there, those of each in order, through
// several rotations, and a reader that follows sees the same.
func TestOrder(t *testing.T) {
	c := testConfig(t.TempDir())
	c.Size = 16 * MinSize // nothing is removed
	l := open(t, c)
	const callers, each = 8, 500
	seen := make(chan []api.AuditRecord)
	go func() { seen <- follow(t, l, api.AuditFilter{Action: "mount"}, callers*each) }()
	var all sync.WaitGroup
	for id := range callers {
		all.Go(func() {
			for n := range each {
				r := api.AuditRecord{Action: "mount", Volume: strconv.Itoa(id), Lease: strconv.Itoa(n), Text: strings.Repeat("x", 900)}
				for l.queued() > maxWaiting/2 { // the test is faster than a disk
					follow(t, l, api.AuditFilter{}, 1)
				}
				l.Record(t.Context(), r, nil)
			}
		})
	}
	all.Wait()
	next := make(map[string]int)
	list := <-seen
	for _, r := range list {
		if r.Lease != strconv.Itoa(next[r.Volume]) {
			t.Fatalf("of %s: %s, want %d", r.Volume, r.Lease, next[r.Volume])
		}
		next[r.Volume]++
	}
	numbered(t, list)
	if old, err := older(c.Dir); err != nil || len(old) == 0 {
		t.Errorf("no rotation: %v", err)
	}
}

func (l *Trail) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// TestRotation: the files are bounded, in number and size, whatever is recorded, and have the
// newest records.
func TestRotation(t *testing.T) {
	c := testConfig(t.TempDir())
	l := open(t, c)
	const n = 3000
	for i := range n {
		l.Record(t.Context(), api.AuditRecord{Action: "mount", Text: strings.Repeat("\x01", i%maxLong)}, nil)
		if i%100 == 99 {
			follow(t, l, api.AuditFilter{Since: time.Now().Add(-time.Hour)}, 1)
			for l.queued() > 0 {
				follow(t, l, api.AuditFilter{}, 1)
			}
		}
	}
	l.Close()
	list := onDisk(t, c.Dir)
	numbered(t, list)
	old, err := older(c.Dir)
	if err != nil || len(old) != Files-1 {
		t.Errorf("%d older files, %v, want %d", len(old), err, Files-1)
	}
	if last := list[len(list)-1]; last.Action != Stopped || last.Seq != n+2 || list[0].Seq == 1 {
		t.Errorf("from %d to %d, %s", list[0].Seq, last.Seq, last.Action)
	}
}

// TestSmaller: with a smaller size the oldest files are removed, at the next rotation at the
// latest.
func TestSmaller(t *testing.T) {
	c := testConfig(t.TempDir())
	fill := func(n int) {
		l := Open(c)
		for range n {
			l.Record(t.Context(), api.AuditRecord{Action: "mount", Text: strings.Repeat("x", 1000)}, nil)
		}
		l.Close()
	}
	c.Size = 4 * MinSize
	fill(1500)
	c.Size = MinSize
	fill(100)
	var total int64
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > c.Size {
		t.Errorf("%d bytes in %d files, want %d at most", total, len(entries), c.Size)
	}
}

// TestStarts: numbers go on, and the log says which end was not orderly, and which settings
// have changed.
func TestStarts(t *testing.T) {
	c := testConfig(t.TempDir())
	c.Defaults = map[string]string{"MAX_SIZE": "20GiB", "TTL": "336h"}
	c.Settings = map[string]string{"MAX_SIZE": "20GiB", "TTL": "1h"}
	l := open(t, c)
	l.Record(t.Context(), api.AuditRecord{Action: "mount"}, nil)
	l.Close()
	c.Settings = map[string]string{"MAX_SIZE": "1GiB", "TTL": "1h", "NEW": "x"}
	open(t, c).Close()
	l = open(t, c)
	follow(t, l, api.AuditFilter{Action: Started}, 3)
	l.Close()
	got := onDisk(t, c.Dir)
	numbered(t, got)
	want := []string{"start", "settings", "mount", "stop", "start", "settings", "stop", "start", "stop"}
	if !slices.Equal(actions(got), want) {
		t.Fatalf("got %q, want %q", actions(got), want)
	}
	if text := fmt.Sprint(got[1].Changes, got[5].Changes); text != "map[TTL:{336h 1h}] map[MAX_SIZE:{20GiB 1GiB} NEW:{ x}]" {
		t.Error(text)
	}

	// A crash that left a line unfinished, behind others that were not written whole.
	path := filepath.Join(c.Dir, currentName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := bytes.LastIndex(data, []byte(`{"seq":9`))
	torn := append(data[:cut:cut], "\x00\x00\x00\n{\"seq\":9,\n{\"seq\""...)
	if err := os.WriteFile(path, torn, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, ".tmp-1"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, c).Close()
	if _, err := os.Stat(filepath.Join(c.Dir, ".tmp-1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a temporary file: %v", err)
	}
	got = onDisk(t, c.Dir)
	numbered(t, got)
	if r := got[8]; r.Action != Started || r.Seq != 9 || !strings.Contains(r.Text, "not orderly") || !strings.Contains(r.Text, "20 bytes") {
		t.Errorf("after a crash: %+v", r)
	}
}

// TestDamage: a file without a record that can be read is kept, and the numbers go on.
func TestDamage(t *testing.T) {
	for name, content := range map[string]string{
		"another file": "hello\nworld\n", "zeros": strings.Repeat("\x00", 2*maxTail) + "\n", "an endless line": strings.Repeat("x", maxTail+1),
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t.TempDir())
			c.Size = 64 * MinSize
			for _, old := range []string{nameOf(1), nameOf(77)} {
				line := strings.Replace(`{"seq":N,"time":"2026-01-01T00:00:00Z","action":"stop","result":"ok","actor":{"kind":"plugin"}}`, "N", strconv.Itoa(map[string]int{nameOf(1): 1, nameOf(77): 80}[old]), 1)
				if err := os.WriteFile(filepath.Join(c.Dir, old), []byte(line+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(c.Dir, currentName), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			l := open(t, c)
			got := follow(t, l, api.AuditFilter{}, 3)
			if got[2].Action != Started || got[2].Seq <= 80 {
				t.Errorf("%+v", got[2])
			}
			l.Close()
			old, err := older(c.Dir)
			if err != nil || len(old) != 3 {
				t.Fatalf("%v, %v", old, err)
			}
			if data, err := os.ReadFile(filepath.Join(c.Dir, old[2].name)); err != nil || string(data) != content {
				t.Errorf("the damaged file has %d bytes, %v", len(data), err)
			}
		})
	}
}

// TestHostileTexts: no text can break a line, or write to a terminal.
func TestHostileTexts(t *testing.T) {
	c := testConfig(t.TempDir())
	l := open(t, c)
	texts := []string{
		"a\nb", "a\r\nb", "\xff\xfe", "\x1b[2J", "\u009b2J", "\u202eabc", "\u2028", "\x7f", "😀", "\U000e0001", `"},{"seq":1`,
		strings.Repeat("x", 1<<20), strings.Repeat("\x1b", 1<<20), strings.Repeat("\U000e0001", 1<<18), "</script>&",
	}
	for _, text := range texts {
		ctx := origin.Begin(t.Context(), origin.NewUser(1000, text))
		changes := make(map[string]api.Change)
		for i := range 100 {
			changes[strconv.Itoa(i)+text] = api.Change{From: text, To: text}
		}
		l.Record(ctx, api.AuditRecord{
			Action: "mount", Volume: text, Subject: text, Repo: text, Ref: text, Commit: text, Clone: text, Lease: text, Workspace: text,
			Checkpoint: text, Name: text, Kind: text, Scope: text, ID: text, Reason: text, Text: text, Changes: changes, VolumeID: text,
		}, errors.New(text))
	}
	got := follow(t, l, api.AuditFilter{Action: "mount"}, len(texts))
	for i, r := range got {
		if want := origin.Clip(texts[i], maxText); r.Volume != want || r.Actor.Claim != origin.Clip(texts[i], origin.MaxClaim) {
			t.Errorf("%.20q: %.40q, claim %.40q", texts[i], r.Volume, r.Actor.Claim)
		}
	}
	l.Close()
	numbered(t, onDisk(t, c.Dir))
	data, err := os.ReadFile(filepath.Join(c.Dir, currentName))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range string(data) {
		if r != '\n' && !strconv.IsPrint(r) {
			t.Errorf("the file has %q", r)
		}
	}
}

// TestLost: while the files can't be written, nothing blocks, and what is lost is counted, in
// the log too.
func TestLost(t *testing.T) {
	c := testConfig(filepath.Join(t.TempDir(), "audit"))
	if err := os.WriteFile(c.Dir, nil, 0o600); err != nil { // in the place of the directory
		t.Fatal(err)
	}
	var out lockedBuffer
	c.Log.SetOutput(&out)
	l := open(t, c)
	for i := range maxWaiting + 1000 {
		l.Record(t.Context(), api.AuditRecord{Action: "mount", Lease: strconv.Itoa(i)}, nil)
	}
	if err := l.Read(t.Context(), api.AuditFilter{}, func([]byte) error { return nil }, nil); err != nil && !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("Read: %v", err)
	}
	for failed := false; !failed; {
		l.mu.Lock()
		failed = l.failure != nil
		l.mu.Unlock()
	}
	if err := os.Remove(c.Dir); err != nil {
		t.Fatal(err)
	}
	var list []api.AuditRecord
	for len(list) == 0 || list[len(list)-1].Action != Lost { // the next try is up to some seconds away
		if err := l.waitWritten(t.Context()); err != nil {
			t.Fatal(err)
		}
		list = onDisk(t, c.Dir)
	}
	numbered(t, list)
	if last := list[len(list)-1]; len(list) != maxWaiting+2 || last.Lost != 1000 || list[1].Lease != "0" || list[maxWaiting].Lease != strconv.Itoa(maxWaiting-1) {
		t.Errorf("%d records, the last: %+v", len(list), last)
	}
	l.Record(t.Context(), api.AuditRecord{Action: "mount", Lease: "after"}, nil)
	l.Close()
	list = onDisk(t, c.Dir)
	numbered(t, list)
	if text := out.String(); strings.Count(text, "can't be written") != 1 || strings.Count(text, "is written again") != 1 || strings.Count(text, "lost=1000") != 1 {
		t.Errorf("log:\n%s", text)
	}
}

// waitWritten waits until something is written.
func (l *Trail) waitWritten(ctx context.Context) error {
	l.mu.Lock()
	changed := l.changed
	l.mu.Unlock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestFullDisk: on a disk that is full in the middle of a line, and at a rotation, every line
// in the files is whole, and the records are written when there is room.
func TestFullDisk(t *testing.T) {
	testdisk.OnEach(t, func(t *testing.T, disk string) {
		c := testConfig(filepath.Join(disk, "audit"))
		l := open(t, c)
		follow(t, l, api.AuditFilter{}, 1)
		fill := filepath.Join(disk, "fill")
		const n = 500 // more than a file
		for round := range 3 {
			if err := testdisk.Fill(fill); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				r := api.AuditRecord{Action: "mount", Volume: strconv.Itoa(round), Lease: strconv.Itoa(i), Text: strings.Repeat("x", 200)}
				l.Record(t.Context(), r, nil)
			}
			l.awaitFailure(t)
			numbered(t, onDiskLoose(t, c.Dir))
			if err := os.Remove(fill); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			follow(t, l, api.AuditFilter{Volume: strconv.Itoa(round)}, n)
		}
		l.Close()
		numbered(t, onDisk(t, c.Dir))
	})
}

// awaitFailure waits until the log can't be written, or everything is written all the same.
func (l *Trail) awaitFailure(t *testing.T) {
	for {
		l.mu.Lock()
		failed, waiting := l.failure != nil, len(l.waiting)
		l.mu.Unlock()
		if failed || waiting == 0 {
			return
		}
		if t.Context().Err() != nil {
			t.Fatal("no failure")
		}
	}
}

// onDiskLoose is onDisk while the log is written: the last line of the current file may not be
// whole.
func onDiskLoose(t *testing.T, dir string) (list []api.AuditRecord) {
	t.Helper()
	old, err := older(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(old) + 1 {
		name := currentName
		if i < len(old) {
			name = old[i].name
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			if bytes.HasSuffix(line, []byte("\n")) {
				list = append(list, record(t, line))
			}
		}
	}
	return list
}

func TestFilter(t *testing.T) {
	c := testConfig(t.TempDir())
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	l := open(t, c)
	follow(t, l, api.AuditFilter{}, 1)
	for i := range 10 {
		mu.Lock()
		now = now.Add(time.Minute)
		mu.Unlock()
		l.Record(t.Context(), api.AuditRecord{Action: []string{"mount", "unmount"}[i%2], Subject: fmt.Sprint("s", i%3), Volume: fmt.Sprint("v", i)}, nil)
	}
	follow(t, l, api.AuditFilter{}, 11)
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	for _, tc := range []struct {
		filter api.AuditFilter
		want   string
	}{
		{api.AuditFilter{Since: at(9)}, "v8 v9"},
		{api.AuditFilter{Since: at(1), Until: at(3)}, "v0 v1"},
		{api.AuditFilter{Subject: "s1"}, "v1 v4 v7"},
		{api.AuditFilter{Subject: "s1", Action: "mount"}, "v4"},
		{api.AuditFilter{Volume: "v3"}, "v3"},
		{api.AuditFilter{Volume: "none"}, ""},
	} {
		var got []string
		err := l.Read(t.Context(), tc.filter, func(line []byte) error {
			got = append(got, record(t, line).Volume)
			return nil
		}, nil)
		if strings.Join(got, " ") != tc.want || err != nil {
			t.Errorf("%+v: %q, %v, want %s", tc.filter, got, err, tc.want)
		}
	}
}

// TestReaders: Reads are bounded, and end with their context.
func TestReaders(t *testing.T) {
	l := open(t, testConfig(t.TempDir()))
	ctx, cancel := context.WithCancel(t.Context())
	reading, ended := make(chan bool, maxReaders), make(chan error)
	for range maxReaders {
		go func() {
			ended <- l.Read(ctx, api.AuditFilter{Follow: true}, func([]byte) error { reading <- true; return nil }, nil)
		}()
	}
	for range maxReaders {
		<-reading
	}
	if err := l.Read(ctx, api.AuditFilter{}, nil, nil); err != ErrReaders {
		t.Errorf("one more: %v", err)
	}
	cancel()
	for range maxReaders {
		if err := <-ended; err != context.Canceled {
			t.Errorf("after the end: %v", err)
		}
	}
	follow(t, l, api.AuditFilter{}, 1)
}

// TestPastedURL checks that a password in a URL is not recorded, whatever field it is in.
func TestPastedURL(t *testing.T) {
	c := testConfig(t.TempDir())
	l := open(t, c)
	const pasted = "https://me:hidden@example.com/x"
	l.Record(t.Context(), api.AuditRecord{Action: "warm", Ref: pasted, Subject: pasted, Name: pasted, Volume: pasted, Lease: pasted}, nil)
	got := follow(t, l, api.AuditFilter{Action: "warm"}, 1)
	l.Close()
	data, err := os.ReadFile(filepath.Join(c.Dir, currentName))
	if err != nil || strings.Contains(string(data), "hidden") || !strings.Contains(got[0].Ref, "example.com/x") {
		t.Errorf("recorded %s, %v", data, err)
	}
}
