package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/helmdeck/repos/api"
)

// maxFollowers bounds the clients that follow events at a time.
const maxFollowers = 32

// followers answers requests for events: with a page of them, or with a stream.
type followers struct {
	config Config
	turns  chan struct{} // has one element for each that follows
}

func newFollowers(c Config) http.Handler { return &followers{c, make(chan struct{}, maxFollowers)} }

func (f *followers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, err := queryOf(r, []string{"after", "follow", "limit"})
	var after int64
	if text := query["after"]; text != "" && err == nil {
		if after, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = badRequest(fmt.Errorf("after is %.40q: allowed is the seq of an event", text))
		}
	}
	follow := false
	if text, ok := query["follow"]; ok && err == nil {
		follow, err = parseFlag("follow", text)
	}
	switch {
	case err != nil:
		f.config.refuse(w, r, err)
	case follow:
		f.follow(w, r, after)
	default:
		f.config.serve(func(r *http.Request) (any, error) { return f.page(query["limit"], after) }).ServeHTTP(w, r)
	}
}

func (f *followers) page(text string, after int64) (any, error) {
	limit, err := limitOf(text)
	if err != nil {
		return nil, err
	}
	events := []api.Event{}
	list, _ := f.config.Janitor.EventsAfter(after)
	for _, e := range list[:min(limit, len(list))] {
		events = append(events, eventOf(e))
	}
	answer := map[string]any{"events": events}
	if len(list) > limit {
		answer["next"] = strconv.FormatInt(events[limit-1].Seq, 10)
	}
	return answer, nil
}

// follow streams events until the client is gone or the plugin stops.
func (f *followers) follow(w http.ResponseWriter, r *http.Request, after int64) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	default:
		f.config.refuse(w, r, requestError{http.StatusServiceUnavailable, fmt.Errorf("%d clients follow events already, and more are not allowed", maxFollowers)})
		return
	}
	out := &lines{w: w}
	err := out.begin()
	for first := true; err == nil; first = false {
		events, more := f.config.Janitor.EventsAfter(after)
		if n := len(events); n > 0 {
			if lost := events[0].Seq - after - 1; lost > 0 && !first {
				err = out.send(api.Event{
					Seq: events[0].Seq - 1, Time: time.Now().UTC(), Type: "lost",
					Text: fmt.Sprintf("%d events are lost, because they were read too slowly", lost),
				})
			}
			after = events[n-1].Seq
		}
		for _, e := range events {
			if err == nil {
				err = out.send(eventOf(e))
			}
		}
		if err != nil {
			break
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
	}
	f.config.Log.WithContext(r.Context()).WithError(err).Debugf("answer %s", r.Pattern)
}
