package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

const (
	// DefaultLimit is the number of records on a page if a request names none, and MaxLimit
	// the most that it may name.
	DefaultLimit = 100
	MaxLimit     = 1000
)

// Filter selects records of a list. An empty field selects all. The plugin refuses a
// filter that a list does not have.
type Filter struct {
	Subject string
	Repo    string // a URL as the records have it
	Clone   string // key
	Volume  string
	Phase   string // of workspaces
}

func (f Filter) query() url.Values {
	q := make(url.Values)
	for name, value := range map[string]string{
		"subject": f.Subject, "repo": f.Repo, "clone": f.Clone, "volume": f.Volume, "phase": f.Phase,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// list returns the records of all pages of a list, which answers have under its name.
func list[T any](ctx context.Context, c *Client, name string, query url.Values) ([]T, error) {
	all := []T{}
	query.Set("limit", strconv.Itoa(MaxLimit))
	for {
		var page map[string]json.RawMessage
		if err := c.call(ctx, http.MethodGet, "/v1/"+name+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		var records []T
		next := ""
		err := json.Unmarshal(page[name], &records)
		if more, ok := page["next"]; ok && err == nil {
			err = json.Unmarshal(more, &next)
		}
		if err != nil {
			return nil, fmt.Errorf("GET /v1/%s: malformed answer: %w", name, err)
		}
		all = append(all, records...)
		if next == "" {
			return all, nil
		}
		if after := query.Get("after"); next <= after { // pages are sorted, so that the list would not end
			return nil, fmt.Errorf("GET /v1/%s: the page after %q leads to the one after %q: the list does not end", name, after, next)
		}
		query.Set("after", next)
	}
}
