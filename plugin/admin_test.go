package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testapi"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestAnswersAreDocumented checks that what a running plugin answers, with a clone, a leased and a
// kept workspace and a checkpoint, is as api/openapi.yaml has it: every GET route, with real keys.
func TestAnswersAreDocumented(t *testing.T) {
	t.Parallel()
	b := newBudget(t, false, "MAX_SIZE=1TiB")
	repo := b.server.URL("sample")
	b.create("plain", map[string]string{"repo": repo, "subject": "team a/b"})
	b.create("kept", map[string]string{"repo": repo, "subject": "team a/b", "mode": "keep"})
	dir := b.mount("plain", "1")
	testgit.GitAny(t, dir, "commit", "-q", "--allow-empty", "-m", "for the bundle")
	b.mount("plain", "1")
	b.mount("kept", "2")
	b.use("worked", true)
	b.settled()
	b.sweep()
	b.put(t)

	// A proxy in front of the socket compares requests and answers with the document.
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "admin"})
	proxy.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(filepath.Dir(b.at.socket), adminSocket))
	}}
	server := httptest.NewServer(testapi.Documented(t, proxy))
	t.Cleanup(server.Close)
	get := func(path string) (answer map[string]any) {
		t.Helper()
		res, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != 200 {
			t.Fatalf("GET %s: %d %s, %v", path, res.StatusCode, data, err)
		}
		if res.Header.Get("Content-Type") == "application/json" {
			if err := json.Unmarshal(data, &answer); err != nil {
				t.Fatal(err)
			}
		}
		return answer
	}
	first := func(list, key string) string {
		t.Helper()
		records, _ := get("/v1/" + list)[list].([]any)
		if len(records) == 0 {
			t.Fatalf("GET /v1/%s: no records", list)
		}
		return url.PathEscape(records[0].(map[string]any)[key].(string))
	}
	workspace := url.PathEscape(b.workspaceOf("plain"))
	byPath := map[string]string{
		"/v1/subjects/{name}":         first("subjects", "name"),
		"/v1/clones/{subject}/{hash}": strings.ReplaceAll(first("clones", "clone"), "%2F", "/"),
		"/v1/volumes/{name}":          first("volumes", "name"),
		"/v1/checkpoints/{id}":        first("checkpoints", "id"),
	}
	for path, item := range testapi.Document(t).Paths.Map() {
		if item.Get == nil {
			continue
		}
		if before, _, ok := strings.Cut(path, "{"); ok {
			if of, ok := strings.CutPrefix(path, "/v1/workspaces/{id}"); ok {
				byPath[path] = workspace + of
				if of == "/conflicts" {
					byPath[path] += "?with=" + url.QueryEscape(b.workspaceOf("kept"))
				}
			}
			if byPath[path] == "" {
				t.Errorf("this test has no key for %s", path)
				continue
			}
			path = before + byPath[path]
		}
		get(path)
	}
	b.poll(func() error { // a workspace's size is measured again in between
		clone := b.settled()["team a/b"]
		subject, err := b.admin.Subject(t.Context(), "team a/b")
		if err == nil && (subject.Size != clone.Size || subject.Volumes != 2 || subject.Leases != 2 || subject.Workspaces != 2 || subject.Checkpoints != 0) {
			err = fmt.Errorf("the subject is %+v, its clone %+v", subject, clone)
		}
		return err
	})
}

// put stores a credential.
func (b *budget) put(t *testing.T) {
	t.Helper()
	err := b.admin.PutCredential(t.Context(), "token", api.PutCredential{Kind: api.HTTPS, Scope: "https://h/x", User: "u", Secret: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
}

// TestFollowersEndWithThePlugin checks that the plugin stops while a client follows events.
func TestFollowersEndWithThePlugin(t *testing.T) {
	t.Parallel()
	b := newBudget(t, false)
	b.use("worked", true)
	b.settled()
	followed := make(chan error, 1)
	began := make(chan struct{})
	once := sync.OnceFunc(func() { close(began) })
	go func() {
		followed <- b.admin.FollowEvents(t.Context(), 0, func(api.Event) error {
			once()
			return nil
		})
	}()
	b.pass(25 * time.Hour)
	b.sweep()
	<-began
	b.stop()
	if err := <-followed; err != nil {
		t.Errorf("the stream did not end in order: %v", err)
	}
}

// TestListsDuringMounts reads all resources while volumes come and go. It is for the race detector,
// because lists show records that mounts change.
func TestListsDuringMounts(t *testing.T) {
	t.Parallel()
	b := newBudget(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var readers sync.WaitGroup
	for _, read := range []func() error{
		func() error { _, err := b.admin.Stats(ctx); return err },
		func() error {
			clones, err := b.admin.Clones(ctx, api.Filter{})
			for _, c := range clones {
				if _, gone := b.admin.Clone(ctx, c.Clone); gone != nil && !notFound(gone) {
					err = gone
				}
			}
			return err
		},
		func() error {
			list, err := b.admin.Workspaces(ctx, api.Filter{})
			for _, w := range list {
				if _, gone := b.admin.Workspace(ctx, w.ID); gone != nil && !notFound(gone) {
					err = gone
				}
			}
			return err
		},
		func() error {
			list, err := b.admin.Volumes(ctx, api.Filter{})
			for _, v := range list {
				if _, gone := b.admin.Volume(ctx, v.Name); gone != nil && !notFound(gone) {
					err = gone
				}
			}
			return err
		},
		func() error { _, err := b.admin.Subjects(ctx, api.Filter{}); return err },
		func() error { _, err := b.admin.Leases(ctx, api.Filter{}); return err },
		func() error { _, err := b.admin.Checkpoints(ctx, api.Filter{}); return err },
		func() error { _, err := b.admin.Events(ctx); return err },
	} {
		readers.Go(func() {
			for ctx.Err() == nil {
				if err := read(); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var users sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprint("v", i)
		users.Go(func() {
			for range 5 {
				b.use(name, true)
				if err := b.Remove(ctx, name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	users.Wait()
	b.sweep()
	cancel()
	readers.Wait()
}

// notFound reports whether the plugin does not know what was asked for.
func notFound(err error) bool {
	refused, ok := errors.AsType[*api.Error](err)
	return ok && refused.Status == http.StatusNotFound
}
