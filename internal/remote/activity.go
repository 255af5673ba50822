package remote

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/work"
)

// Activities are work that takes long enough to be asked about. The zero value has
// none. It is safe for concurrent use.
type Activities struct {
	mu    sync.Mutex
	doing []*activity
}

type activity struct {
	job         *work.Job // may be nil
	state, url  string
	progress    git.Progress
	hasProgress bool
}

// Begin announces an activity of the job of ctx until end is called.
func (l *Activities) Begin(ctx context.Context, state, url string) (progress func(git.Progress), end func()) {
	a := &activity{job: work.JobOf(ctx), state: state, url: url}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doing = append(l.doing, a)
	progress = func(p git.Progress) {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.progress, a.hasProgress = p, true
	}
	return progress, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.doing = slices.DeleteFunc(l.doing, func(other *activity) bool { return other == a })
	}
}

// Newest returns what was begun last, such as `cloning`, and how far it is. It is not ok
// when nothing is being done.
func (l *Activities) Newest() (state, progress string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.doing) == 0 {
		return "", "", false
	}
	a := l.doing[len(l.doing)-1]
	if a.job.Queued() {
		return a.state, "waiting for its turn behind other work", true
	}
	return a.state, a.progress.String(), true
}

// String says what is being done, such as `cloning https://… receiving objects 43%
// (1.2 GiB)`; empty when nothing is.
func (l *Activities) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parts []string
	for _, a := range l.doing {
		s := a.state + " " + a.url
		if a.job.Queued() {
			s = "waiting for its turn behind other work: " + s
		}
		if a.hasProgress {
			s += ": " + a.progress.String()
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}
