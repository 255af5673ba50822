package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/prebuild"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// maxFile bounds a file of jobs.
const maxFile = 1 << 20

// many prebuilds the repositories of a file, once or until ctx ends.
func (f *flagSet) many(ctx context.Context, s *session.Session) error {
	jobs, err := readJobs(f.file)
	if err != nil {
		return err
	}
	print, err := f.printer(s)
	if err != nil {
		return err
	}
	if _, err := s.Client(ctx); err != nil {
		return err
	}
	var broken error // of the output
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b := &prebuild.Batch{
		Jobs: jobs, Parallel: f.parallel, Interval: f.interval, Run: f.runner(s),
		Report: func(r prebuild.Report) {
			if err := print(r); err != nil && broken == nil {
				broken = err
				stop()
			}
		},
	}
	if !f.watch {
		failed, first := b.Once(ctx)
		return errors.Join(broken, ofMany(first, failed, len(jobs)))
	}
	b.Pushes = func(ctx context.Context, since time.Time, connected func(), push func(api.AuditRecord)) error {
		return follow(ctx, s, since, connected, push)
	}
	if f.metrics != "" {
		m := prebuild.NewMetrics(jobs)
		report := b.Report
		b.Report = func(r prebuild.Report) { m.Note(r); report(r) }
		_, done, err := serve(f.metrics, m)
		if err != nil {
			return fmt.Errorf("--metrics: %w", err)
		}
		defer done()
	}
	b.Watch(ctx)
	return broken
}

// readJobs reads a file of jobs.
func readJobs(name string) ([]prebuild.Job, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return prebuild.Parse(name, data)
}

// ofMany is the error of a file. Its lines have said already what failed.
func ofMany(first error, failed, all int) error {
	if first == nil {
		return nil
	}
	return &manyError{fmt.Sprintf("%d of %d repositories could not be prebuilt", failed, all), first}
}

// manyError has the text of all, and the exit code of the first.
type manyError struct {
	text  string
	first error
}

func (e *manyError) Error() string { return e.text }

// printer returns a function that prints what has become of a job.
func (f *flagSet) printer(s *session.Session) (func(prebuild.Report) error, error) {
	print, err := show.Printer(s.Out(), f.format, func(r prebuilt) string {
		if f.quiet {
			return r.Mount
		}
		return line(r.Report)
	})
	if err != nil {
		return nil, err
	}
	return func(r prebuild.Report) error {
		if r.Err != nil {
			r.Error = show.Error(r.Err).Error()
		}
		switch {
		case r.Again && f.watch, r.State == prebuild.Old && f.quiet:
			return nil
		case r.State == prebuild.Old && !f.watch, // stdout has one line for each, which is the result
			r.State == prebuild.Failed && f.quiet: // stdout has the mounts alone
			_, err := fmt.Fprintln(s.Err(), show.Text(line(r)))
			return err
		}
		return print(prebuiltOf(s, r))
	}, nil
}

// line says what has become of a job, in one line.
func line(r prebuild.Report) string {
	switch r.State {
	case prebuild.Ready:
		return fmt.Sprintf("%s ready: %.12s, did %s", r.Repo, r.Commit, r.Did)
	case prebuild.Old:
		return fmt.Sprintf("%s old: %s", r.Repo, running(r.Result, r.Why))
	}
	text := fmt.Sprintf("%s failed: %s", r.Repo, r.Error)
	if r.Good != "" {
		text += fmt.Sprintf("; it was ready for %.12s", r.Good)
	}
	return text
}

// runner returns what runs a job, with its output on stderr, where each line begins with the repository.
func (f *flagSet) runner(s *session.Session) func(context.Context, prebuild.Job, func(prebuild.Result, string) error) (prebuild.Result, error) {
	var lock sync.Mutex
	return func(ctx context.Context, j prebuild.Job, begin func(prebuild.Result, string) error) (prebuild.Result, error) {
		p := prebuilder(s)
		out := &lines{prefix: j.Repo + " | ", lock: &lock, out: s.Err()}
		p.Warn = func(err error) { fmt.Fprintln(out, "warning:", show.Error(err)) }
		if p.Begin = begin; !f.quiet {
			p.Output = out
		}
		r, err := p.Run(ctx, j)
		return r, errors.Join(err, out.flush())
	}
}

// lines writes whole lines with a prefix to an output that has a lock.
type lines struct {
	prefix string
	lock   *sync.Mutex
	out    io.Writer
	rest   []byte // the beginning of a line
}

// maxLine is how long a line may be before it is cut into two.
const maxLine = 16 << 10

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		n := min(len(l.rest), maxLine)
		if i >= 0 {
			n = i
		}
		if err := l.print(l.rest[:n]); err != nil {
			return 0, err
		}
		if l.rest = l.rest[n:]; i >= 0 {
			l.rest = l.rest[1:]
		}
	}
}

func (l *lines) print(line []byte) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	_, err := fmt.Fprintln(l.out, show.Text(l.prefix+string(line)))
	return err
}

// flush writes what is left.
func (l *lines) flush() error {
	if len(l.rest) == 0 {
		return nil
	}
	err := l.print(l.rest)
	l.rest = nil
	return err
}

// follow calls push with the record of each refresh since a time that somebody asks the plugin for, such as the receiver
// of a webhook. The audit log says so, when the plugin has fetched what was pushed. It calls connected before, when the
// plugin has answered.
func follow(ctx context.Context, s *session.Session, since time.Time, connected func(), push func(api.AuditRecord)) error {
	return plugin{s}.ask(ctx, func(c *api.Client) error {
		if _, err := c.Version(ctx); err != nil {
			return err
		}
		connected()
		return c.Audit(ctx, api.AuditFilter{Action: "refresh", Since: since, Follow: true}, func(r api.AuditRecord) error {
			push(r)
			return nil
		})
	})
}

// serve serves metrics at an address until done is called. at is the address with its port.
func serve(address string, m prometheus.Collector) (at string, done func(), err error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(m); err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	go server.Serve(listener)
	return listener.Addr().String(), func() { server.Close() }, nil
}
