package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/failpoint"
)

// writer writes the records of a Trail, one goroutine for each.
type writer struct {
	*Trail
	file    *os.File // nil before the first try, and after a failure
	begun   bool     // the file was opened once
	seq     int64    // of the last record
	pending []api.AuditRecord
	missing int64 // the number of records that were lost after those of pending
	// unsynced counts the written records that are not synced, and doubtful those whose sync
	// has failed.
	unsynced, doubtful int64
	settingsDue        bool // settings.json is to be written when pending is
}

const (
	currentName  = "audit.jsonl"
	settingsName = "settings.json"
)

// write is the writer's goroutine.
func (l *Trail) write() {
	defer close(l.done)
	w := &writer{Trail: l}
	var syncDue, retry <-chan time.Time
	wait := retryFirst
	l.nudge() // for the record of the start
	for {
		ending := false
		select {
		case <-l.wake:
			if retry != nil {
				continue // what waits is written at the next try
			}
		case <-retry:
			retry = nil
		case <-syncDue:
			syncDue = nil
			w.report(w.sync())
			continue
		case <-l.end:
			ending = true
		}
		err := w.flush()
		if err == nil && ending {
			w.pending = []api.AuditRecord{{Time: l.config.Now().UTC(), Action: Stopped, Result: OK, Actor: Own}}
			err = errors.Join(w.flush(), w.sync())
		}
		w.report(err)
		switch {
		case ending:
			w.drop()
			return
		case err != nil:
			retry = time.After(wait)
			wait = min(2*wait, retryMost)
		default:
			wait = retryFirst
			if syncDue == nil && w.unsynced > 0 {
				syncDue = time.After(SyncAfter)
			}
		}
	}
}

// report logs the first of several failures, and their end. After a failure the file is
// opened anew.
func (w *writer) report(err error) {
	w.mu.Lock()
	before := w.failure
	w.failure = err
	w.mu.Unlock()
	log := w.config.Log.WithContext(context.Background())
	switch {
	case err != nil && before == nil:
		log.WithError(err).Warnf("audit: the log can't be written: up to %d records wait in memory, more are lost; this is tried again", maxWaiting)
	case err == nil && before != nil:
		log.Info("audit: the log is written again")
	}
	if err != nil {
		w.drop()
	}
}

// drop closes the file.
func (w *writer) drop() {
	if w.file != nil {
		_ = w.file.Close() // what matters was synced
		w.file = nil
	}
}

// flush writes all that waits.
func (w *writer) flush() error {
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	for {
		if len(w.pending) == 0 && w.missing == 0 {
			w.pending, w.missing = w.take()
		}
		if len(w.pending) == 0 && w.missing == 0 && w.doubtful == 0 {
			return w.saveSettings()
		}
		if err := w.writePending(); err != nil {
			return err
		}
		if err := w.writeLost(); err != nil {
			return err
		}
		w.announce()
	}
}

// chunk is how much is written at a time, in bytes.
const chunk = 64 << 10

// writePending writes pending, and removes from it what was written.
func (w *writer) writePending() error {
	for len(w.pending) > 0 {
		var data []byte
		n := 0
		for n < len(w.pending) && len(data) < chunk {
			r := w.pending[n]
			r.Seq = w.seq + int64(n) + 1
			line := appendLine(nil, r)
			if w.size+int64(len(data)+len(line)) > w.config.Size/Files {
				if n > 0 {
					break // what there is belongs into this file
				}
				if w.size > 0 {
					if err := w.rotate(); err != nil {
						return err
					}
				}
			}
			data = append(data, line...)
			n++
		}
		if err := w.append(data); err != nil {
			return err
		}
		w.pending = w.pending[n:]
		w.seq += int64(n)
		w.unsynced += int64(n)
	}
	w.pending = nil
	return nil
}

// writeLost writes a record about those that were lost, if there are any.
func (w *writer) writeLost() error {
	if w.missing == 0 && w.doubtful == 0 {
		return nil
	}
	r := api.AuditRecord{
		Time: w.config.Now().UTC(), Action: Lost, Result: Failed, Actor: Own, Lost: w.missing,
		Text: fmt.Sprintf("the log could not be written: %d records are lost", w.missing),
	}
	if w.doubtful > 0 {
		r.Text += fmt.Sprintf("; a sync failed, so the %d records before these may be missing too", w.doubtful)
	}
	missing, doubtful := w.missing, w.doubtful
	w.seq, w.missing, w.doubtful = w.seq+missing, 0, 0
	w.pending = []api.AuditRecord{r}
	if err := w.writePending(); err != nil {
		w.seq, w.missing, w.doubtful, w.pending = w.seq-missing, missing, doubtful, nil
		return err
	}
	if missing > 0 {
		w.config.Log.WithContext(context.Background()).WithField("lost", missing).Warn("audit: records are lost")
	}
	return nil
}

// append appends complete lines to the file. After an error the file is as before, or it
// will be when it is opened anew.
func (w *writer) append(data []byte) error {
	if _, err := w.file.Write(data); err != nil {
		return errors.Join(err, w.file.Truncate(w.size))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size += int64(len(data))
	return nil
}

// announce tells readers that there is more.
func (w *writer) announce() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *writer) sync() error {
	if w.file == nil || w.unsynced == 0 {
		return nil
	}
	if err := w.file.Sync(); err != nil {
		w.doubtful, w.unsynced = w.doubtful+w.unsynced, 0
		return err
	}
	w.unsynced = 0
	return nil
}

// rotate gives the file the name of an older one, and begins a new one. The oldest are
// removed first, because that makes room on a full disk.
func (w *writer) rotate() error {
	if err := w.sync(); err != nil {
		return err
	}
	if err := w.trim(); err != nil {
		return err
	}
	failpoint.Hit("audit/rotate/removed")
	w.files.Lock()
	defer w.files.Unlock()
	if err := w.putAside(w.first); err != nil {
		return err
	}
	failpoint.Hit("audit/rotate/renamed")
	w.drop()
	if err := w.create(); err != nil {
		return err
	}
	failpoint.Hit("audit/rotate/made")
	return nil
}

// trim removes the oldest files, so that there is room for another one.
func (w *writer) trim() error {
	old, err := older(w.config.Dir)
	if err != nil {
		return err
	}
	most := w.config.Size - w.config.Size/Files - w.size
	var total int64
	for i, keep := len(old)-1, 0; i >= 0; i-- {
		path := filepath.Join(w.config.Dir, old[i].name)
		info, err := os.Lstat(path)
		if err == nil {
			total += info.Size()
			if keep++; keep <= Files-2 && total <= most {
				continue
			}
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// putAside renames the current file. It replaces no other.
func (w *writer) putAside(first int64) error {
	for ; ; first++ {
		name := filepath.Join(w.config.Dir, nameOf(first))
		_, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return durable.Rename(filepath.Join(w.config.Dir, currentName), name)
		case err != nil:
			return err
		}
	}
}

// create makes a new current file.
func (w *writer) create() error {
	f, err := os.OpenFile(filepath.Join(w.config.Dir, currentName), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	w.use(f, w.seq+1, 0)
	return durable.SyncDir(w.config.Dir)
}

// use makes f the current file.
func (w *writer) use(f *os.File, first, size int64) {
	w.file = f
	w.mu.Lock()
	defer w.mu.Unlock()
	w.first, w.size = first, size
}

// begin queues the records about the start, before all others.
func (w *writer) begin(orderly bool, cut int64) {
	w.begun = true
	r := api.AuditRecord{Time: w.began, Action: Started, Result: OK, Actor: Own}
	if !orderly {
		r.Text = "the end before was not orderly: the last records before it may be missing"
	}
	if cut > 0 {
		r.Text += fmt.Sprintf("; %d bytes of unfinished lines were cut off", cut)
	}
	first := []api.AuditRecord{r}
	before := w.config.Defaults
	if m := lastSettings(w.config.Dir); m != nil {
		before = m
	}
	changes := make(map[string]api.Change)
	for name, value := range w.config.Settings {
		if before[name] != value {
			changes[name] = api.Change{From: before[name], To: value}
		}
	}
	for name, value := range before {
		if _, ok := w.config.Settings[name]; !ok && value != "" {
			changes[name] = api.Change{From: value}
		}
	}
	if len(changes) > 0 {
		s := api.AuditRecord{Time: r.Time, Action: Settings, Result: OK, Actor: Own, Changes: changes}
		clip(&s)
		first = append(first, s)
	}
	w.settingsDue = !maps.Equal(before, w.config.Settings)
	w.pending = append(first, w.pending...)
}

// lastSettings returns the settings of the last start; nil if they are not known.
func lastSettings(dir string) (m map[string]string) {
	data, err := os.ReadFile(filepath.Join(dir, settingsName))
	if err != nil || json.Unmarshal(data, &m) != nil {
		return nil
	}
	return m
}

// LastSetting returns a setting of the last start that was recorded in dir; empty if it is
// not known.
func LastSetting(dir, name string) string { return lastSettings(dir)[name] }

// saveSettings writes settings.json when the record about its change is on disk. A crash
// between makes the next start record the change again.
func (w *writer) saveSettings() error {
	if !w.settingsDue {
		return nil
	}
	if err := w.sync(); err != nil {
		return err
	}
	failpoint.Hit("audit/settings/recorded")
	data, err := json.Marshal(w.config.Settings)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(w.config.Dir, settingsName), data, 0o600); err != nil {
		return err
	}
	w.settingsDue = false
	return nil
}
