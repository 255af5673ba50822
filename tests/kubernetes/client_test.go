package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// object is an object of the cluster's API, or a part of one.
type object = map[string]any

// client calls the API server. Its methods may be called concurrently.
type client struct{ http *http.Client }

// refused is an error that the API server answered.
type refused struct {
	Code    int
	Message string
}

func (r *refused) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Message) }

// newClient returns a client of the API server on a machine, which need not be booted yet.
func newClient(m *machine) *client {
	return &client{&http.Client{Transport: &http.Transport{
		DialContext:     m.dial,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the server has made its certificate itself
		// Connections do not survive the machine.
		IdleConnTimeout: time.Second, MaxIdleConnsPerHost: 64,
	}}}
}

// get decodes what a path has into answer, unless that is nil.
func (c *client) get(ctx context.Context, path string, answer any) error {
	return c.call(ctx, http.MethodGet, path, nil, answer)
}

// post creates an object in the collection of a path.
func (c *client) post(ctx context.Context, path string, o object) error {
	return c.call(ctx, http.MethodPost, path, o, nil)
}

func (c *client) call(ctx context.Context, method, path string, body, answer any) error {
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer == nil {
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	return json.NewDecoder(resp.Body).Decode(answer)
}

// send sends a request and returns the response, if it is no error. A body that is not nil is sent as JSON.
func (c *client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	r, err := http.NewRequestWithContext(ctx, method, "https://127.0.0.1:6443"+path, content)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer admin")
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	resp, err := c.http.Do(r)
	if err != nil || resp.StatusCode < 300 {
		return resp, err
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	answer := &refused{Code: resp.StatusCode, Message: string(data)}
	_ = json.Unmarshal(data, answer) // not all errors are a Status
	return nil, answer
}

// watch calls see for each state of a pod, from the current one on, until see returns true. It calls ready before the first.
func (c *client) watch(ctx context.Context, namespace, name string, ready func() error, see func(event string, p pod) bool) error {
	query := url.Values{"watch": {"1"}, "resourceVersion": {"0"}, "fieldSelector": {"metadata.name=" + name}}
	resp, err := c.send(ctx, http.MethodGet, pods(namespace)+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err := ready(); err != nil {
		return err
	}
	events := json.NewDecoder(resp.Body)
	for {
		var e struct {
			Type   string
			Object pod
		}
		if err := events.Decode(&e); err != nil {
			return fmt.Errorf("the events of pod %s: %w", name, err)
		}
		if see(e.Type, e.Object) {
			return nil
		}
	}
}

// pods returns the path of a namespace's pods.
func pods(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }
