package admin

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/helmdeck/repos/api"
)

// lines writes JSON lines to a client. A client that does not read a line for writeWait is
// disconnected. It is not safe for concurrent use.
type lines struct {
	w     http.ResponseWriter
	begun bool
}

// begin sends the header, with status 200.
func (l *lines) begin() error {
	l.begun = true
	setWriteDeadline(l.w, time.Now().Add(writeWait))
	l.w.Header().Set("Content-Type", "application/jsonl")
	l.w.WriteHeader(http.StatusOK)
	return l.flush()
}

// send sends one line. After an error the client is gone.
func (l *lines) send(v any) error {
	if err := l.write(v); err != nil {
		return err
	}
	return l.flush()
}

// write writes one line. The client gets it at the next flush, or when the handler returns.
func (l *lines) write(v any) error {
	if !l.begun {
		if err := l.begin(); err != nil {
			return err
		}
	}
	setWriteDeadline(l.w, time.Now().Add(writeWait))
	return json.NewEncoder(l.w).Encode(v)
}

func (l *lines) flush() error { return http.NewResponseController(l.w).Flush() }

// operation is a long operation. It may call report from any goroutine until it returns;
// report never blocks, and the client gets the newest progress when it reads.
type operation func(r *http.Request, report func(api.Progress)) (result any, err error)

// operate answers with the JSON lines of an operation, and as the last one with its result
// or error. The error of an operation that reported nothing has its HTTP status.
func (c Config) operate(f operation) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &lines{w: w}
		var latest latest
		latest.changed = make(chan struct{}, 1)
		stop := make(chan struct{})
		var writer sync.WaitGroup
		writer.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-latest.changed:
				}
				if out.send(latest.get()) != nil {
					return // the request's context ends
				}
			}
		})
		result, err := func() (any, error) {
			defer writer.Wait()
			defer close(stop)
			return f(r, latest.set)
		}()
		// The last line is not flushed: the client gets it when the request is in the audit log.
		switch {
		case err != nil && !out.begun:
			c.refuse(w, r, err)
			return
		case err != nil:
			if statusOf(err) == http.StatusInternalServerError {
				c.Log.WithContext(r.Context()).WithError(err).Errorf("%s failed", r.Pattern)
			}
			err = out.write(errorAnswer(err))
		default:
			err = out.write(list{"result": result})
		}
		if err != nil {
			c.Log.WithContext(r.Context()).WithError(err).Debugf("answer %s", r.Pattern)
		}
	})
}

// latest is the newest progress of an operation.
type latest struct {
	mu      sync.Mutex
	now     api.Progress
	changed chan struct{}
}

func (l *latest) set(p api.Progress) {
	l.mu.Lock()
	l.now = p
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *latest) get() api.Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}
