package commands

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

// TestLogs checks what is asked of the plugin, and how a line is printed.
func TestLogs(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	asked := ""
	p := fake{"GET /v1/logs": func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RawQuery
		json.NewEncoder(w).Encode(api.LogLine{
			Seq: 1, Time: at, Level: "warning", Message: "mount: failed\x1b[2J", Fields: map[string]string{"volume": "v", "error": "no such ref \"x\""},
		})
	}}
	text := at.Local().Format(time.RFC3339) + ` warning mount: failed\u001b[2J error="no such ref \"x\"" volume=v` + "\n"
	for _, c := range []struct{ args, query, out, err string }{
		{"logs", "", text, ""},
		{"logs v", "volume=v", text, ""},
		{"logs --tail 20 v", "tail=20&volume=v", text, ""},
		{"logs -n all", "", text, ""},
		{"logs --since 2026-01-31T00:00:00Z", "since=2026-01-31T00%3A00%3A00Z", text, ""},
		{"logs --follow", "follow=true", text, "the plugin has ended its log"},
		{"logs --follow --until 2026-01-31T00:00:00Z", "until=2026-01-31T00%3A00%3A00Z", text, ""},
		{"logs --format {{.Level}}:{{.Fields.volume}}", "", "warning:v\n", ""},
		{"logs --format json", "", `{"seq":1,"time":"2026-01-31T12:00:00Z","level":"warning","message":"mount: failed\u001b[2J","fields":{"error":"no such ref \"x\"","volume":"v"}}` + "\n", ""},
		{"logs --tail 0", "none", "", `--tail: "0" is neither a number above 0 nor all`},
		{"logs --tail x", "none", "", `--tail: "x" is neither a number above 0 nor all`},
		{"logs v w", "none", "", "requires at most 1 argument"},
	} {
		asked = "none"
		got := p.run(t, "", strings.Fields(c.args)...)
		switch {
		case asked != c.query:
			t.Errorf("%s: asked for %q, want %q", c.args, asked, c.query)
		case got.out != c.out:
			t.Errorf("%s: got\n%q, want\n%q", c.args, got.out, c.out)
		case c.err == "" && got.failed != nil, c.err != "" && (got.failed == nil || !strings.Contains(got.failed.Error(), c.err)):
			t.Errorf("%s: got %v, want %q", c.args, got.failed, c.err)
		}
	}
}

// TestFollowUntil checks that a command that follows ends at the end of the period: at once if that has passed.
func TestFollowUntil(t *testing.T) {
	following := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") == "true" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"events": []api.Event{}})
	}
	quiet := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("follow") == "true" {
			following(w, r)
		}
	}
	p := fake{"GET /v1/events": following, "GET /v1/logs": quiet, "GET /v1/audit": quiet}
	for _, command := range []string{"events", "logs", "audit"} {
		for _, until := range []string{"1h", time.Now().Add(time.Second).Format(time.RFC3339Nano)} {
			if got := p.run(t, "", command, "--follow", "--until", until); got.failed != nil {
				t.Errorf("%s --until %s: %v", command, until, got.failed)
			}
		}
	}
}
