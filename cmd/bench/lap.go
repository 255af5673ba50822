package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

// lap measures one group on all builds in turns, on one filesystem.
type lap struct {
	*comparison
	groups []group // the same group for each build
	places []*place
	turns  int

	root   string
	disk   *loopdisk.Disk
	scenes []*scene
	rounds int // of each scene
}

// buildError means that a build other than this one could not be measured.
type buildError struct{ error }

// run adds the rows to the comparison. If another build cannot run a group, such as an older
// build without the feature, run reports that the group is not measured.
func (l *lap) run(ctx context.Context) (err error) {
	g := l.groups[0]
	rows := make([]contrast, len(g.rows))
	for j, w := range g.rows {
		rows[j] = contrast{name: w.name, column: l.places[0].column}
	}
	defer func() {
		var other buildError
		if ctx.Err() == nil && errors.As(err, &other) {
			fmt.Fprintf(l.progress, "NOT MEASURED: %s, %v: %v\n", g.name, l.places[0].column, err)
			err = nil
		}
		err = errors.Join(err, l.close())
		for _, c := range rows {
			fmt.Fprintf(l.progress, "%13v  %s: %s of its former time in %d turns\n", c.column, c.name, times(c.ratio()), len(c.this))
		}
		l.rows = append(l.rows, rows...)
	}()
	for _, b := range l.builds {
		if err := b.checkSettings(g.settings); err != nil {
			return buildError{err}
		}
	}
	for i := range l.turns {
		order := []int{i % 2, 1 - i%2}
		if g.fresh || i == 0 {
			if err := l.open(ctx, order); err != nil {
				return err
			}
		}
		var got [2][]float64
		for _, k := range order {
			if got[k], err = l.measure(ctx, k); err != nil {
				return l.blame(k, err)
			}
		}
		l.rounds += l.perTurn()
		for j := range rows {
			if got[0][j] > 0 && got[1][j] > 0 {
				rows[j].this, rows[j].before = append(rows[j].this, got[0][j]), append(rows[j].before, got[1][j])
				if err := rows[j].write(l.results); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// perTurn returns the number of rounds in a turn. Fast rows have several.
func (l *lap) perTurn() int { return l.groups[0].rounds / l.turns }

// blame adds the name of the build that failed and the end of its log to an error.
func (l *lap) blame(k int, err error) error {
	if k < len(l.scenes) {
		err = l.scenes[k].explain(err)
	}
	err = fmt.Errorf("%s: %w", l.builds[k].name, err)
	if k > 0 {
		return buildError{err}
	}
	return err
}

// open makes a filesystem with a scene for each build, and prepares the scenes.
func (l *lap) open(ctx context.Context, order []int) (err error) {
	if err := l.close(); err != nil {
		return err
	}
	l.rounds = 0
	p := l.places[0]
	if l.root, err = os.MkdirTemp(p.root, "scene-"); err != nil {
		return err
	}
	if err := os.Chmod(l.root, 0o755); err != nil {
		return err
	}
	if l.disk, err = l.groups[0].newDisk(ctx, l.root, p, len(l.builds)); err != nil {
		return err
	}
	l.scenes = make([]*scene, len(l.builds))
	for _, k := range order {
		part := &loopdisk.Disk{Dir: filepath.Join(l.disk.Dir, strconv.Itoa(k))}
		if err := os.Mkdir(part.Dir, 0o755); err != nil {
			return err
		}
		if l.scenes[k], err = openScene(ctx, l.places[k], l.groups[k], part); err != nil {
			return l.blame(k, err)
		}
		if prepare := l.groups[k].prepare; prepare != nil {
			if err := prepare(ctx, l.scenes[k]); err != nil {
				return l.blame(k, fmt.Errorf("prepare: %w", err))
			}
		}
	}
	return nil
}

// close removes the scenes, and then their disk.
func (l *lap) close() error {
	var errs []error
	for _, s := range l.scenes {
		errs = append(errs, s.close())
	}
	l.scenes = nil
	if l.disk != nil {
		errs = append(errs, l.disk.Close())
		l.disk = nil
	}
	if l.root == "" {
		return leftBehind(errs...)
	}
	if err := leftBehind(errs...); err != nil {
		return err // no RemoveAll: something may still be mounted there
	}
	err := os.RemoveAll(l.root)
	l.root = ""
	return leftBehind(err)
}

// measure measures the rows of a build in one turn. It returns the median of each row, or 0 if
// the row has no sample.
func (l *lap) measure(ctx context.Context, k int) ([]float64, error) {
	g, s := l.groups[k], l.scenes[k]
	// Wait until the background work of all builds has ended.
	for _, other := range l.scenes {
		if err := other.awaitIdle(ctx); err != nil {
			return nil, err
		}
	}
	all := make([][]float64, len(g.rows))
	g.rounds = l.perTurn()
	for _, at := range g.order() {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		took, err := g.rows[at.row].sample(ctx, s, l.rounds+at.round)
		if errors.Is(err, errEnough) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.rows[at.row].name, err)
		}
		all[at.row] = append(all[at.row], took)
	}
	medians := make([]float64, len(all))
	for j, values := range all {
		medians[j] = median(values)
	}
	return medians, nil
}

const (
	// idleTime is how long a plugin must use no processor time to count as idle. The kernel
	// counts that time in ticks of 10 ms.
	idleTime = 100 * time.Millisecond
	// idleWait bounds the wait: a plugin that is never idle is measured anyway.
	idleWait = 20 * time.Second
)

// awaitIdle waits until neither the plugin nor its children use the processor, because their
// background work has ended. It does not wait for an engine.
func (s *scene) awaitIdle(ctx context.Context) error {
	if s == nil || s.plugin == nil {
		return nil
	}
	since, last := time.Now(), ""
	for deadline := since.Add(idleWait); time.Since(since) < idleTime && time.Now().Before(deadline); {
		now, err := processorTime(s.plugin.Pid())
		if err != nil {
			return fmt.Errorf("the plugin: %w", err)
		}
		if now != last {
			since, last = time.Now(), now
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// processorTime returns the processor time of a process and its running and ended children,
// as a text that changes with the time.
func processorTime(pid int) (string, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// After the name in parentheses, utime, stime, cutime and cstime are the fields 12 to 15.
	// proc_pid_stat(5) also counts the two fields before.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return "", fmt.Errorf("/proc/%d/stat: %q", pid, data)
	}
	used := strings.Join(fields[11:15], " ")
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return "", err
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // the thread may have ended
		for _, child := range strings.Fields(string(children)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				return "", fmt.Errorf("%s: %w", list, err)
			}
			more, _ := processorTime(id) // it may have ended
			used += fmt.Sprintf(", %d: %s", id, more)
		}
	}
	return used, nil
}
