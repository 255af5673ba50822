package api

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
	"unicode"
)

// Client calls the API. Its methods may be called concurrently. If the plugin refuses a
// request the error is an *Error; other errors are those of the connection.
type Client struct {
	// Claim names who makes the requests, for the audit log, where the plugin can't know it:
	// behind a relay, the user of the socket is always root. It is recorded as a claim.
	Claim string

	http *http.Client
}

// ClaimHeader is the header of requests with Client.Claim.
const ClaimHeader = "Helmdeck-Claim"

// New returns a client that makes its connections with dial, and keeps one for the next
// call. Close closes it.
func New(dial func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{http: &http.Client{
		Transport: &http.Transport{
			MaxIdleConns:       1,
			DisableCompression: true,
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		},
		// The API redirects nothing.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Dial returns a client of a unix socket. Every call makes a connection.
func Dial(socket string) *Client {
	c := New(func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	})
	c.http.Transport.(*http.Transport).DisableKeepAlives = true
	return c
}

// Close closes the idle connections. The Client can be used again.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is an error answer of the plugin.
type Error struct {
	Status  int    // of HTTP
	Message string // for people
	// Obstacles are what is in the way of a request that was refused because something is
	// in use.
	Obstacles []Obstacle
}

func (e *Error) Error() string { return e.Message }

// ErrorAnswer is the body of an answer with a status of 400 or more, and the last JSON
// line of a long operation that failed.
type ErrorAnswer struct {
	Error     string     `json:"error"`
	Obstacles []Obstacle `json:"obstacles,omitempty"`
}

// Obstacle is something that is in use, or that a request would lose.
type Obstacle struct {
	// Kind is lease, workspace, volume, checkpoint or work.
	Kind   string `json:"kind"`
	ID     string `json:"id,omitempty"`
	Volume string `json:"volume,omitempty"`
	Clone  string `json:"clone,omitempty"` // key
	Text   string `json:"text"`
	// Forced reports whether force discards it.
	Forced bool `json:"forced"`
}

// The limits of answers in bytes: a page has at most 1000 records of some KB, and a JSON
// line one record.
const (
	maxAnswer = 64 << 20
	maxLine   = 4 << 20
)

// call sends body, if not nil, and decodes the answer into answer, if not nil. An answer
// without a body leaves it as it is.
func (c *Client) call(ctx context.Context, method, path string, body, answer any) error {
	res, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s %s: %w", method, path, err)
	case len(data) > maxAnswer:
		return fmt.Errorf("%s %s: the answer is larger than %d bytes", method, path, maxAnswer)
	case answer == nil || res.StatusCode == http.StatusNoContent:
		return nil
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s %s: malformed answer: %w", method, path, err)
	}
	return nil
}

// segment returns a name as one segment of a path, whatever characters it has.
func segment(name string) string {
	if name == "." || name == ".." { // which mean other segments
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// printable replaces characters that a header can't have.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return '?'
	}
	return r
}

// send makes a request, and returns the answer if the plugin did not refuse. The caller
// closes its body.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://admin"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if c.Claim != "" {
		r.Header.Set(ClaimHeader, strings.Map(printable, c.Claim))
	}
	res, err := c.http.Do(r)
	if err != nil || res.StatusCode < 300 {
		return res, err
	}
	defer res.Body.Close()
	var refused ErrorAnswer
	data, _ = io.ReadAll(io.LimitReader(res.Body, maxLine))
	if json.Unmarshal(data, &refused) != nil || refused.Error == "" {
		refused.Error = "the plugin answered " + res.Status
	}
	return nil, &Error{res.StatusCode, refused.Error, refused.Obstacles}
}
