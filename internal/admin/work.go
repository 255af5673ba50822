package admin

import (
	"fmt"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
)

func (c Config) listWork(r *http.Request) (any, error) {
	work := []api.Work{}
	for _, a := range c.Clones.Activities() {
		work = append(work, workOf(a))
	}
	return page(r, "work", work, func(w api.Work) string { return w.ID }, columns[api.Work]{
		"subject": func(w api.Work) string { return w.Subject },
		"repo":    func(w api.Work) string { return hashOf(w.Clone) },
		"clone":   func(w api.Work) string { return w.Clone },
	})
}

func workOf(a clone.Activity) api.Work {
	w := api.Work{
		ID: fmt.Sprintf("%s/%019d/%s", a.Key, a.Began.UnixNano(), a.State), Clone: a.Key, Subject: a.Subject, Repo: a.Repo, URL: a.URL,
		State: a.State, Queued: a.Queued, Since: a.Began.UTC(), For: a.For,
	}
	if p := a.Progress; p.Phase != "" {
		w.Progress, w.Objects, w.Total = p.String(), p.Objects, p.Total
	}
	return w
}
