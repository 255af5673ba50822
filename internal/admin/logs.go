package admin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/journal"
	"github.com/helmdeck/repos/internal/clone"
)

// logs answers requests for the log.
type logs struct {
	config Config
	turns  chan struct{} // has one element for each that follows
}

func newLogs(c Config) http.Handler { return &logs{c, make(chan struct{}, maxFollowers)} }

func (l *logs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query, err := queryOf(r, append([]string{"volume"}, spanParameters...))
	if err != nil {
		l.config.refuse(w, r, err)
		return
	}
	of, err := spanOf(query)
	if err != nil {
		l.config.refuse(w, r, err)
		return
	}
	about := l.about(query["volume"])
	chosen := func(line journal.Line) bool { return of.has(line.Time) && about(line.Fields) }
	list, more := l.config.Journal.After(0)
	seq := lastSeq(list, 0)
	list = selectedLines(list, chosen)
	if len(list) == 0 && query["volume"] != "" {
		if _, err := l.config.Volumes.Get(query["volume"]); err != nil {
			l.config.refuse(w, r, err)
			return
		}
	}
	if of.tail > 0 {
		list = list[max(len(list)-of.tail, 0):]
	}
	if of.follow {
		select {
		case l.turns <- struct{}{}:
			defer func() { <-l.turns }()
		default:
			l.config.refuse(w, r, requestError{http.StatusServiceUnavailable, fmt.Errorf("%d clients follow the log already, and more are not allowed", maxFollowers)})
			return
		}
	}
	out := &lines{w: w}
	err = out.begin()
	for err == nil { // an error is not logged, because its line would be one more to send
		for _, line := range list {
			if err = out.send(api.LogLine(line)); err != nil {
				return
			}
		}
		if !of.follow || !of.until.IsZero() && time.Now().After(of.until) {
			break
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		}
		list, more = l.config.Journal.After(seq)
		if n := lastSeq(list, seq); len(list) > 0 {
			if lost := list[0].Seq - seq - 1; lost > 0 {
				err = out.send(api.LogLine{
					Seq: list[0].Seq - 1, Time: time.Now().UTC(), Level: "warning", Fields: map[string]string{},
					Message: fmt.Sprintf("%d lines are lost, because they were read too slowly", lost),
				})
			}
			seq = n
		}
		list = selectedLines(list, chosen)
	}
}

func lastSeq(list []journal.Line, before int64) int64 {
	if len(list) == 0 {
		return before
	}
	return list[len(list)-1].Seq
}

func selectedLines(list []journal.Line, chosen func(journal.Line) bool) []journal.Line {
	var out []journal.Line
	for _, line := range list {
		if chosen(line) {
			out = append(out, line)
		}
	}
	return out
}

// about returns a function that reports whether the fields of a line are those of a line about a
// volume: it names the volume, or the clone of the volume and no other volume. An empty name stands
// for all lines.
func (l *logs) about(name string) func(fields map[string]string) bool {
	if name == "" {
		return func(map[string]string) bool { return true }
	}
	id, key := "", ""
	if v, err := l.config.Volumes.Get(name); err == nil {
		id, _ = v.State.Status["volume_id"].(string)
		key = clone.Key(v.Options.Subject, v.Options.Repo)
	}
	return func(fields map[string]string) bool {
		volume, named := fields["volume"]
		of, known := fields["volume_id"]
		switch {
		case named:
			return volume == name
		case known:
			return of == id
		}
		return key != "" && fields["clone"] == key
	}
}
