package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/origin"
)

// maxReaders bounds how many Reads run at a time: each has a file open.
const maxReaders = 16

// ErrReaders says that too many Reads run.
var ErrReaders = errors.New("too many requests read the audit log: end one of them, or try again")

// ErrOff is the error of Read without a log.
var ErrOff = errors.New("there is no audit log, because the setting AUDIT_SIZE is 0")

// Read calls f with each line that filter selects, oldest first, until f fails or ctx ends.
// With filter.Follow it then waits for new lines; idle, if it is not nil, is called before it
// waits, and every half a minute. The line, with its newline, is valid until f returns. Lines that are not a
// record are left out. Memory is bounded. A reader that falls behind by more than the log's
// size misses records, as their numbers show. The error is f's or ctx's, ErrReaders, or that
// of the files.
func (l *Trail) Read(ctx context.Context, filter api.AuditFilter, f func(line []byte) error, idle func() error) error {
	if l == nil {
		return ErrOff
	}
	l.mu.Lock()
	full := l.readers >= maxReaders
	if !full {
		l.readers++
	}
	l.mu.Unlock()
	if full {
		return ErrReaders
	}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.readers--
	}()
	for _, text := range []*string{&filter.Subject, &filter.Volume, &filter.Action} {
		*text = origin.Clip(*text, maxText) // as records have it
	}
	r := &reader{Trail: l, filter: filter, texts: texts(filter), emit: f, idle: idle}
	defer r.close()
	return r.run(ctx)
}

// reader is one Read.
type reader struct {
	*Trail
	filter api.AuditFilter
	texts  [][]byte // see texts
	emit   func(line []byte) error
	idle   func() error

	file    *os.File
	first   int64 // the number of the first record of file
	current bool  // file was the current one when it was opened
	at      int64 // the offset of the next line
}

func (r *reader) close() {
	if r.file != nil {
		r.file.Close()
	}
}

// idleEvery is how often idle is called.
const idleEvery = 30 * time.Second

func (r *reader) run(ctx context.Context) error {
	for {
		changed, _, _ := r.state()
		more, err := r.next()
		if err != nil {
			return err
		}
		for more {
			changed, last, size := r.state()
			if err := r.readLines(ctx, size); err != nil {
				return err
			}
			if !last {
				break // the file is complete
			}
			if !r.filter.Follow {
				return nil
			}
			if err := r.wait(ctx, changed); err != nil {
				return err
			}
		}
		switch {
		case more:
		case !r.filter.Follow:
			return nil
		default: // the plugin has just started
			if err := r.wait(ctx, changed); err != nil {
				return err
			}
		}
	}
}

// state reports whether the reader's file is the current one, and how much of it may be read:
// after that there may be lines whose write failed, and that other lines will replace. changed
// is closed when there is more.
func (r *reader) state() (changed <-chan struct{}, last bool, size int64) {
	r.Trail.mu.Lock()
	defer r.Trail.mu.Unlock()
	if r.current && r.first == r.Trail.first {
		return r.Trail.changed, true, r.Trail.size
	}
	return r.Trail.changed, false, math.MaxInt64
}

func (r *reader) wait(ctx context.Context, changed <-chan struct{}) error {
	t := time.NewTicker(idleEvery)
	defer t.Stop()
	for {
		if r.idle != nil {
			if err := r.idle(); err != nil {
				return err
			}
		}
		select {
		case <-changed:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}

// next opens the file after the reader's. more is false if there is none.
func (r *reader) next() (more bool, err error) {
	r.close()
	r.file = nil
	r.files.Lock() // no file is renamed meanwhile
	defer r.files.Unlock()
	list, err := older(r.config.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, o := range list {
		if o.first <= r.first {
			continue
		}
		f, err := os.Open(filepath.Join(r.config.Dir, o.name))
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
			continue
		}
		r.file, r.first, r.at = f, o.first, 0
		return err == nil, err
	}
	r.Trail.mu.Lock()
	first, failure := r.Trail.first, r.Trail.failure
	r.Trail.mu.Unlock()
	if first == 0 {
		return false, failure // it was never opened
	}
	if first <= r.first {
		return false, nil
	}
	f, err := os.Open(filepath.Join(r.config.Dir, currentName))
	if err != nil {
		return false, err
	}
	r.file, r.first, r.at, r.current = f, first, 0, true
	return true, nil
}

// readLines emits the complete lines from r.at to the offset end.
func (r *reader) readLines(ctx context.Context, end int64) error {
	lines := bufio.NewReaderSize(io.NewSectionReader(r.file, r.at, max(end-r.at, 0)), maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // not ours
			r.at += int64(len(line))
			continue
		case err == io.EOF:
			return nil // an unfinished line is read again
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		r.at += int64(len(line))
		if r.selects(line) {
			if err := r.emit(line); err != nil {
				return err
			}
		}
	}
}

// texts returns what each line that a filter selects has in it, as appendLine writes it.
func texts(f api.AuditFilter) (list [][]byte) {
	for _, name := range []string{f.Subject, f.Volume, f.Action} {
		if name != "" {
			list = append(list, bytes.TrimSuffix(encode(nil, name), []byte("\n")))
		}
	}
	return list
}

// selects reports whether the filter selects a line.
func (r *reader) selects(line []byte) bool {
	for _, text := range r.texts { // because decoding a line costs much more
		if !bytes.Contains(line, text) {
			return false
		}
	}
	var rec struct {
		head
		Time            time.Time
		Subject, Volume string
	}
	if json.Unmarshal(line, &rec) != nil || rec.Seq == 0 {
		return false
	}
	f := r.filter
	is := func(want, got string) bool { return want == "" || want == got }
	return !rec.Time.Before(f.Since) && (f.Until.IsZero() || rec.Time.Before(f.Until)) &&
		is(f.Subject, rec.Subject) && is(f.Volume, rec.Volume) && is(f.Action, rec.Action)
}
