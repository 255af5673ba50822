package remote

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/work"
)

// Activities are the tasks that a volume's status shows. The zero value is empty. It is
// safe for concurrent use.
type Activities struct {
	mu    sync.Mutex
	doing []*activity
}

type activity struct {
	job        *work.Job // may be nil
	state, url string
	began      time.Time
	progress   gitprogress.Progress // zero: unknown yet
}

// Begin adds an activity of the job of ctx, and end removes it.
func (l *Activities) Begin(ctx context.Context, state, url string) (progress func(gitprogress.Progress), end func()) {
	a := &activity{job: work.JobOf(ctx), state: state, url: url, began: time.Now()}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doing = append(l.doing, a)
	progress = func(p gitprogress.Progress) {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.progress = p
	}
	return progress, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.doing = slices.DeleteFunc(l.doing, func(other *activity) bool { return other == a })
	}
}

// Now describes an activity.
type Now struct {
	State    string // such as cloning; empty without an activity
	URL      string // of the repository, which may be that of a submodule
	For      string // who began the work, such as `a mount of volume "src"`; empty if it is unknown
	Began    time.Time
	Queued   bool // it waits for its turn behind other work
	Progress gitprogress.Progress
}

func (a *activity) now() Now {
	n := Now{State: a.state, URL: a.url, Began: a.began, Queued: a.job.Queued(), Progress: a.progress}
	if a.job != nil {
		n.For = a.job.Owner
	}
	return n
}

// Now returns the newest activity.
func (l *Activities) Now() Now {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.doing) == 0 {
		return Now{}
	}
	return l.doing[len(l.doing)-1].now()
}

// All returns all activities, oldest first.
func (l *Activities) All() []Now {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []Now
	for _, a := range l.doing {
		list = append(list, a.now())
	}
	return list
}

// Newest returns the state of the newest activity, such as `cloning`, and its progress. It
// is not ok without an activity.
func (l *Activities) Newest() (state, progress string, ok bool) {
	now := l.Now()
	if now.Queued {
		return now.State, "waiting for its turn behind other work", true
	}
	return now.State, now.Progress.String(), now.State != ""
}

// String describes all activities, such as `cloning https://…: receiving objects 43%
// (1.2 GiB)`; empty without any.
func (l *Activities) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parts []string
	for _, a := range l.doing {
		s := a.state + " " + a.url
		if a.job.Queued() {
			s = "waiting for its turn behind other work: " + s
		}
		if a.progress != (gitprogress.Progress{}) {
			s += ": " + a.progress.String()
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}
