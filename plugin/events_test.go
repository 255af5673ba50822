package main

import (
	"fmt"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/janitor"
)

// TestEventsSurviveRestart checks that events are there after a restart, with a mark for it.
func TestEventsSurviveRestart(t *testing.T) {
	t.Parallel()
	s, data := remote(t), scratch(t)
	p := start(t, data)
	if _, err := p.admin().Warm(t.Context(), api.Warm{Repo: s.URL("sample"), Ref: "main"}, nil); err != nil {
		t.Fatal(err)
	}
	clones, err := p.admin().Clones(t.Context(), api.Filter{})
	if err != nil || len(clones) != 1 {
		t.Fatalf("clones %+v, %v", clones, err)
	}
	if _, err := p.admin().EvictClone(t.Context(), clones[0].Clone); err != nil {
		t.Fatal(err)
	}
	before := events(t, p)
	if len(before) != 1 || before[0].Type != "evicted" || before[0].Kind != "clone" || before[0].Clone != clones[0].Clone {
		t.Fatalf("events %+v", before)
	}
	p.stop()

	p = start(t, data)
	after := events(t, p)
	if len(after) != 2 || after[0] != before[0] || after[1].Type != "started" || after[1].Seq <= before[0].Seq {
		t.Errorf("after a restart: %+v, before it: %+v", after, before)
	}
}

func events(t *testing.T, p *process) []api.Event {
	t.Helper()
	list, err := p.admin().Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestEventsKept checks that the database has the last events alone.
func TestEventsKept(t *testing.T) {
	t.Parallel()
	path := scratch(t) + "/db"
	db, state, err := meta.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l := newEventLog(db, state, nil)
	for round := range 3 {
		for i := range 600 {
			l.record(janitor.Event{Seq: int64(1000*round + i), Type: janitor.Warning, Text: fmt.Sprint(round, " ", i)})
		}
		l.save(t.Context())
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db, state, err = meta.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	got := newEventLog(db, state, nil).earlier()
	if len(got) != janitor.EventsKept || got[0].Text != "1 200" || got[len(got)-1].Text != "2 599" {
		t.Errorf("%d events from %+v to %+v", len(got), got[0], got[len(got)-1])
	}
}
