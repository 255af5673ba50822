package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/audit"
	"github.com/helmdeck/repos/internal/repo/ready"
	"github.com/helmdeck/repos/internal/volume"
)

// trail opens an audit log until the end of the test.
func trail(t *testing.T) *audit.Trail {
	t.Helper()
	log := logrus.New()
	log.SetOutput(io.Discard)
	l := audit.Open(audit.Config{Dir: filepath.Join(t.TempDir(), "audit"), Size: audit.MinSize, Log: log, Now: time.Now})
	t.Cleanup(l.Close)
	return l
}

var errEnough = errors.New("enough")

// follow returns the first n records that filter selects, and waits for them.
func follow(t *testing.T, c *api.Client, filter api.AuditFilter, n int) (list []api.AuditRecord) {
	t.Helper()
	filter.Follow = true
	err := c.Audit(t.Context(), filter, func(r api.AuditRecord) error {
		if list = append(list, r); len(list) == n {
			return errEnough
		}
		return nil
	})
	if err != errEnough {
		t.Fatalf("after %d records: %v", len(list), err)
	}
	return list
}

// TestActions checks that each request that changes something has a name in the audit log.
func TestActions(t *testing.T) {
	var left []string
	for pattern := range actions {
		left = append(left, pattern)
	}
	for pattern := range (Config{}).routes() {
		i := slices.Index(left, pattern)
		if i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
		if !strings.HasPrefix(pattern, "GET ") && i < 0 {
			t.Errorf("%s has no action", pattern)
		}
	}
	if len(left) > 0 {
		t.Errorf("there is no %q", left)
	}
}

// TestRequestsAreAudited: a request that changes something is recorded with its user, and how
// it was answered; a secret is not.
func TestRequestsAreAudited(t *testing.T) {
	const secret = "tok-5b8c11"
	config := populated()
	config.Audit = trail(t)
	config.Credentials = store(t)
	config.Workspaces.(*heap).fail = errors.New("busy")
	c, ctx := client(t, config), t.Context()
	c.Claim = "alice\nlevel=error"
	if err := c.PutCredential(ctx, "one", api.PutCredential{Kind: "bearer", Scope: "https://h", Subject: "team a", Allow: "push", Secret: secret}); err != nil {
		t.Fatal(err)
	}
	if err := c.PutCredential(ctx, "two", api.PutCredential{Kind: "none", Scope: "https://h", Secret: secret}); err == nil {
		t.Error("a wrong kind was accepted")
	}
	if err := c.RemoveCredential(ctx, "one"); err != nil {
		t.Error(err)
	}
	if err := c.RemoveCheckpoint(ctx, "d"); err == nil {
		t.Error("no error")
	}
	if _, err := c.Sweep(ctx); err != nil {
		t.Error(err)
	}
	if _, err := c.Plan(ctx); err != nil { // changes nothing
		t.Error(err)
	}
	list := follow(t, c, api.AuditFilter{}, 6)
	var got []string
	for _, r := range list[1:] {
		got = append(got, fmt.Sprintln(r.Action, r.Result, r.Error, r.Name, r.Kind, r.Scope, r.Allow, r.Subject, r.Checkpoint, r.Volume))
		if r.Actor.Kind != "user" || r.Actor.Claim != "alice?level=error" || r.Request == "" {
			t.Errorf("%+v", r)
		}
	}
	want := []string{
		"credential.put ok  one bearer https://h push team a  \n",
		"", // the error has its own test
		"credential.remove ok  one      \n",
		"checkpoint.remove failed busy     team a d v\n",
		"sweep ok        \n",
	}
	for i := range want {
		if i != 1 && got[i] != want[i] {
			t.Errorf("got  %swant %s", got[i], want[i])
		}
	}
	if r := list[2]; r.Result != "failed" || r.Name != "two" || r.Error == "" {
		t.Errorf("%+v", r)
	}
	if text := fmt.Sprintf("%+v", list); strings.Contains(text, secret) {
		t.Error("the log has the secret")
	}
}

// TestAnswered: the error of an answer is found, however it is written.
func TestAnswered(t *testing.T) {
	long := strings.Repeat("x", 2*lineKept)
	for _, tt := range []struct {
		status int
		writes []string
		want   string
	}{
		{204, nil, ""},
		{200, []string{`{"a":1}` + "\n"}, ""},
		{404, []string{`{"error":"none"}` + "\n"}, "none"},
		{409, []string{`{"err`, `or":"in use","obstacles":[{"kind":"lease"}]}`, "\n"}, "in use"},
		{0, []string{`{"status":"fetching"}` + "\n", `{"error":"late"}` + "\n"}, "late"},
		{0, []string{`{"error":"early"}` + "\n" + `{"result":{}}` + "\n"}, ""},
		{500, []string{"plain"}, "500: plain"},
		{500, nil, "500: "},
		{409, []string{`{"error":"` + long + `"}` + "\n"}, `409: "` + long[:lineKept-len(`{"error":"`)]},
		{0, []string{`{"error":"`, long, `"}` + "\n"}, `200: "` + long[:lineKept-len(`{"error":"`)]},
	} {
		a := &answered{ResponseWriter: httptest.NewRecorder()}
		a.Header().Set("Content-Type", "application/jsonl") // as all answers of routes that change something
		if tt.status != 0 {
			a.WriteHeader(tt.status)
		}
		for _, text := range tt.writes {
			if _, err := io.WriteString(a, text); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		if err := a.err(); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d %.40q: got %.80q, want %.80q", tt.status, tt.writes, got, tt.want)
		}
	}
}

func TestAuditQuery(t *testing.T) {
	config := populated()
	h := Handler(config)
	get := func(query string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/audit?"+query, nil))
		return w.Code, w.Body.String()
	}
	if code, body := get(""); code != 404 || !strings.Contains(body, "AUDIT_SIZE") {
		t.Errorf("without a log: %d %s", code, body)
	}
	config.Audit = trail(t)
	follow(t, client(t, config), api.AuditFilter{}, 1)
	h = Handler(config)
	for query, want := range map[string]string{
		"": "start", "since=1h": "start", "until=1h": "", "since=2000-01-01T00:00:00Z": "start", "until=2000-01-01T00:00:00%2B01:00": "",
		"action=start": "start", "action=mount": "", "follow=false": "start",
	} {
		code, body := get(query)
		if code != 200 || strings.Contains(body, `"action":"start"`) != (want != "") || strings.Count(body, "\n") != min(len(want), 1) {
			t.Errorf("%q: %d %s", query, code, body)
		}
	}
	for _, query := range []string{"since=yesterday", "until=1", "follow=maybe", "who=me", "since=1h&since=2h"} {
		if code, _ := get(query); code != 400 {
			t.Errorf("%q: %d", query, code)
		}
	}
}

// TestAuditTail checks that the last records come, and with follow each new one after them.
func TestAuditTail(t *testing.T) {
	config := populated()
	config.Audit = trail(t)
	c := client(t, config)
	for i := range 5 {
		config.Audit.Record(t.Context(), api.AuditRecord{Action: "mount", Volume: fmt.Sprint(i)}, nil)
	}
	follow(t, c, api.AuditFilter{}, 6) // all are written
	var got []string
	if err := c.Audit(t.Context(), api.AuditFilter{Action: "mount", Tail: 2}, func(r api.AuditRecord) error {
		got = append(got, r.Volume)
		return nil
	}); err != nil || fmt.Sprint(got) != "[3 4]" {
		t.Errorf("got %q, %v", got, err)
	}
	got = nil
	if err := c.Audit(t.Context(), api.AuditFilter{Action: "mount", Tail: 1, Follow: true}, func(r api.AuditRecord) error {
		if got = append(got, r.Volume); r.Volume == "4" {
			config.Audit.Record(t.Context(), api.AuditRecord{Action: "mount", Volume: "5"}, nil)
			return nil
		}
		return errEnough
	}); err != errEnough || fmt.Sprint(got) != "[4 5]" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestHostileClaims: a claim of any size and content is refused or cut off, and breaks nothing.
func TestHostileClaims(t *testing.T) {
	config := populated()
	config.Audit = trail(t)
	s := httptest.NewServer(Handler(config))
	defer s.Close()
	send := func(claim string) string {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = fmt.Fprintf(conn, "POST /v1/sweep HTTP/1.1\r\nHost: a\r\n%s: %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", api.ClaimHeader, claim)
		}()
		line, _ := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line)
	}
	n := 0
	for claim, want := range map[string]string{
		"bob":                     "bob",
		"a%0Ab+":                  "a%0Ab+",
		"Zoë":                     "Zoë",
		"\xff":                    "?",
		"a\r\n b":                 "a b",
		"\u009b2J":                "\u009b2J",
		strings.Repeat("x", 9000): strings.Repeat("x", 256),
	} {
		if got := send(claim); !strings.Contains(got, "200") {
			t.Errorf("%.20q: %s", claim, got)
			continue
		}
		n++
		list := follow(t, client(t, config), api.AuditFilter{Action: "sweep"}, n)
		if got := list[n-1].Actor.Claim; got != want {
			t.Errorf("%.20q is recorded as %.20q, want %.20q", claim, got, want)
		}
	}
	for _, claim := range []string{strings.Repeat("x", 2<<20), "a\r\nX-Other: b\rc", "a\x00b"} {
		if got := send(claim); strings.Contains(got, "200") {
			t.Errorf("%.20q: %s", claim, got)
		}
	}
}

// TestSlowReader: a client that reads nothing holds nobody up.
func TestSlowReader(t *testing.T) {
	config := populated()
	config.Audit = trail(t)
	s := httptest.NewServer(Handler(config))
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/v1/audit?follow=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for range 3000 {
		config.Audit.Record(ctx, api.AuditRecord{Action: "mount", Text: strings.Repeat("x", 1000)}, nil)
	}
	c := client(t, config)
	follow(t, c, api.AuditFilter{Action: "mount"}, 100)
	if _, err := c.Sweep(ctx); err != nil {
		t.Error(err)
	}
	follow(t, c, api.AuditFilter{Action: "sweep"}, 1)
}

// TestRefusedURLsAreNotAudited: a URL that is refused because it has a password is in no record.
func TestRefusedURLsAreNotAudited(t *testing.T) {
	const secret = "tok-5b8c11"
	config := populated()
	config.Audit = trail(t)
	config.Warmer = &warmer{fail: volume.Refuse("repo", "https://u:"+secret+"@h/r", "has a password", "")}
	config.Refresher = &refresher{fail: volume.Refuse("repo", "https://u:"+secret+"@h/r", "has a password", "")}
	c, ctx := client(t, config), t.Context()
	for _, repo := range []string{"https://u:" + secret + "@h/r", "https://h/r"} {
		if _, err := c.Warm(ctx, api.Warm{Repo: repo}, nil); err == nil {
			t.Error("it was warmed")
		}
		if _, err := c.Refresh(ctx, api.Refresh{Repo: repo}); err == nil {
			t.Error("it was refreshed")
		}
	}
	list := follow(t, c, api.AuditFilter{}, 5)
	if text := fmt.Sprintf("%+v", list); strings.Contains(text, secret) || list[3].Repo != "https://h/r" || list[4].Action != "refresh" {
		t.Errorf("recorded %s", text)
	}
	// A refresh of one clone names it.
	for want, list := range map[string][]ready.Result{"s/1": {{Clone: "s/1", Ref: "a"}, {Clone: "s/1", Ref: "b"}}, "": {{Clone: "s/1"}, {Clone: "t/1"}}} {
		config.Refresher, config.Audit = &refresher{list: list}, trail(t)
		c := client(t, config)
		if _, err := c.Refresh(ctx, api.Refresh{Repo: "https://h/r"}); err != nil {
			t.Error(err)
		}
		if got := follow(t, c, api.AuditFilter{Action: "refresh"}, 1); got[0].Clone != want {
			t.Errorf("got %+v, want the clone %q", got[0], want)
		}
	}
}
