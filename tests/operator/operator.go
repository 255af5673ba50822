// Package operator is a client of the plugin's admin socket (internal/admin), for tests.
package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/ready"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/janitor"
)

// Client calls the API. Its methods may be called concurrently. If the plugin refuses a
// request the error is an *Error; other errors are those of the connection.
type Client struct{ http *http.Client }

// Error is an error response of the plugin.
type Error struct {
	Status  int // of HTTP
	Message string
}

func (e *Error) Error() string { return e.Message }

// Discard is a discard as the API shows it.
type Discard struct {
	ID         string     `json:"id"`
	Volume     string     `json:"volume"`
	Subject    string     `json:"subject"`
	Repo       string     `json:"repo"`
	Commit     string     `json:"commit"`
	Ref        string     `json:"ref"`
	EndedAt    time.Time  `json:"ended_at"`
	ExpiresAt  time.Time  `json:"expires_at"`
	Changed    *int64     `json:"changed"`
	Bytes      *int64     `json:"bytes"`
	MeasuredAt *time.Time `json:"measured_at"`
}

// Dial returns a client of the socket. Every call makes a connection.
func Dial(socket string) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}}
}

// PutCredential stores c, and replaces any credential of that name.
func (c *Client) PutCredential(ctx context.Context, cred credential.Credential) error {
	// A Credential's own JSON has no secret.
	body := struct {
		Kind    credential.Kind `json:"kind"`
		Scope   string          `json:"scope"`
		Subject volume.Subject  `json:"subject,omitempty"`
		User    string          `json:"user,omitempty"`
		Secret  string          `json:"secret"`
	}{cred.Kind, cred.Scope, cred.Subject, cred.User, cred.Secret.Reveal()}
	return c.call(ctx, http.MethodPut, "/v1/credentials/"+url.PathEscape(cred.Name), body, nil)
}

// Credentials lists the credentials, sorted by name.
func (c *Client) Credentials(ctx context.Context) ([]credential.Info, error) {
	return get[credential.Info](ctx, c, "/v1/credentials", "credentials")
}

// RemoveCredential deletes a credential. If there is none, the error is an *Error with
// the status 404.
func (c *Client) RemoveCredential(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, "/v1/credentials/"+url.PathEscape(name), nil, nil)
}

// Discards lists the discards, the one that ended first before all others.
func (c *Client) Discards(ctx context.Context) ([]Discard, error) {
	return get[Discard](ctx, c, "/v1/discards", "discards")
}

// RemoveDiscard deletes a discard. The error is an *Error with the status 404 if there is
// none, and 409 if it is being restored or was.
func (c *Client) RemoveDiscard(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/discards/"+url.PathEscape(id), nil, nil)
}

// PlanSweep returns what a sweep of the janitor would evict now, and why.
func (c *Client) PlanSweep(ctx context.Context) (plan janitor.Plan, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/janitor/plan", nil, &plan)
	return plan, err
}

// Sweep makes the janitor sweep, and returns what it evicted.
func (c *Client) Sweep(ctx context.Context) (report janitor.Report, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/janitor/sweep", nil, &report)
	return report, err
}

// Events returns the janitor's last 1000 events since the plugin's start, oldest first.
func (c *Client) Events(ctx context.Context) ([]janitor.Event, error) {
	return get[janitor.Event](ctx, c, "/v1/janitor/events", "events")
}

// JanitorStats returns the janitor's figures since the plugin's start.
func (c *Client) JanitorStats(ctx context.Context) (stats janitor.Stats, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/janitor/stats", nil, &stats)
	return stats, err
}

// Clones lists the clones, largest first.
func (c *Client) Clones(ctx context.Context) ([]janitor.CloneInfo, error) {
	return get[janitor.CloneInfo](ctx, c, "/v1/clones", "clones")
}

// EvictClone evicts a clone by its key: its next mount clones again. The error is an
// *Error with the status 404 if there is none, and 409 if a part of it is in use or it
// has discards.
func (c *Client) EvictClone(ctx context.Context, key string) error {
	subject, hash, _ := strings.Cut(key, "/")
	return c.call(ctx, http.MethodDelete, "/v1/clones/"+url.PathEscape(subject)+"/"+url.PathEscape(hash), nil, nil)
}

// Refresh asks, fetches and builds what was mounted of a repository in the last day. The
// error is an *Error with the status 404 if there is no clone of it.
func (c *Client) Refresh(ctx context.Context, r ready.Request) ([]ready.Result, error) {
	var answer struct{ Refreshed []ready.Result }
	err := c.call(ctx, http.MethodPost, "/v1/refresh", r, &answer)
	return answer.Refreshed, err
}

// get returns the list that the API has at path, under its name there.
func get[T any](ctx context.Context, c *Client, path, name string) ([]T, error) {
	var answer map[string][]T
	err := c.call(ctx, http.MethodGet, path, nil, &answer)
	return answer[name], err
}

// call sends body, if not nil, and decodes the response into answer, if not nil.
func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	res, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if data, err = io.ReadAll(res.Body); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if res.StatusCode >= 300 {
		var refused struct{ Error string }
		if json.Unmarshal(data, &refused) != nil || refused.Error == "" {
			refused.Error = "the plugin answered " + res.Status
		}
		return &Error{res.StatusCode, refused.Error}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s %s: malformed answer: %w", method, path, err)
	}
	return nil
}
