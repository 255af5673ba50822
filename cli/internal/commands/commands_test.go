package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
)

// fake is an admin socket that answers each route, such as "GET /v1/clones", with a value as JSON, or
// by an http.HandlerFunc.
type fake map[string]any

// result is what a command printed.
type result struct {
	out, err string
	failed   error
}

// refuse answers with an error of the plugin.
func refuse(status int, answer api.ErrorAnswer) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(answer)
	}
}

// body decodes a request into want's type, and compares.
func body[T comparable](t *testing.T, want T) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		var got T
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || got != want {
			t.Errorf("%s %s: got %+v and %v, want %+v", r.Method, r.URL, got, err, want)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

var clones = map[string]any{"clones": []api.Clone{
	{Clone: "ci/0123456789abcdef", Subject: "ci", Repo: "https://example.com/small", Size: api.Size{Bytes: 1 << 20, Inodes: 9}, Held: "free", Free: true},
	{Clone: "ev/fedcba9876543210", Subject: "ev\x1b[2Jil", Repo: "https://example.com/" + strings.Repeat("long", 20), Size: api.Size{Bytes: 3 << 30}, Used: time.Now().Add(-time.Hour), Held: "mounted"},
}}

func TestLs(t *testing.T) {
	p := fake{"GET /v1/clones": clones}
	got := p.run(t, "", "ls")
	want := `CLONE                 SUBJECT         REPOSITORY                                                     SIZE      USED                HELD
ev/fedcba9876543210   ev\u001b[2Jil   https://example.com/longlonglonglonglonglonglonglonglonglon…   3GiB      About an hour ago   mounted
ci/0123456789abcdef   ci              https://example.com/small                                      1MiB      never               free
`
	if got.failed != nil || got.out != want {
		t.Errorf("got %v and\n%s, want\n%s", got.failed, got.out, want)
	}
	for args, want := range map[string]string{
		"ls -q":                        "ev/fedcba9876543210\nci/0123456789abcdef\n",
		"ls --format {{.Bytes}}":       "3221225472\n1048576\n",
		"ls --format table{{.Inodes}}": "INODES\n0\n9\n",
	} {
		if got := p.run(t, "", strings.Fields(args)...); got.failed != nil || got.out != want {
			t.Errorf("%s: got %v and %q, want %q", args, got.failed, got.out, want)
		}
	}
	if got := p.run(t, "", "ls", "--no-trunc"); strings.Contains(got.out, "…") {
		t.Errorf("--no-trunc: got\n%s", got.out)
	}
	if got := p.run(t, "", "ls", "--format", "{{.Nothing}}"); got.failed == nil || !strings.Contains(got.failed.Error(), "template parsing error") {
		t.Errorf("got %v, want an error of the template", got.failed)
	}
}

func TestEvict(t *testing.T) {
	freed := api.Freed{Freed: 5 << 20, Clones: []string{"ci/0123456789abcdef"}}
	p := fake{
		"GET /v1/clones":                            clones,
		"DELETE /v1/clones/ci/0123456789abcdef":     freed,
		"DELETE /v1/clones/ev/fedcba9876543210":     refuse(http.StatusConflict, api.ErrorAnswer{Error: "the clone is in use", Obstacles: []api.Obstacle{{Kind: "lease", Text: "container abc\x1b has volume web"}}}),
		"POST /v1/clones/ci/0123456789abcdef/fresh": freed,
	}
	for _, c := range []struct{ input, args, out, err string }{
		{"", "evict -f ci/0123456789abcdef", "ci/0123456789abcdef\nTotal reclaimed space: 5MiB\n", ""},
		{"y\n", "evict ci/0123456789abcdef", "WARNING! This will evict the clone ci/0123456789abcdef. The next mount clones again.\nAre you sure you want to continue? [y/N] ci/0123456789abcdef\nTotal reclaimed space: 5MiB\n", ""},
		{"y\n", "evict --discard ci/0123456789abcdef", "WARNING! This will evict the clone ci/0123456789abcdef. The next mount clones again.\nIt will also delete the checkpoints, and the workspaces that no container has mounted.\nAre you sure you want to continue? [y/N] ci/0123456789abcdef\nTotal reclaimed space: 5MiB\n", ""},
		{"n\n", "evict ci/0123456789abcdef", "WARNING! This will evict the clone ci/0123456789abcdef. The next mount clones again.\nAre you sure you want to continue? [y/N] ", "declined"},
		{"", "evict ci/0123456789abcdef", "WARNING! This will evict the clone ci/0123456789abcdef. The next mount clones again.\nAre you sure you want to continue? [y/N] \n", "nobody answered"},
		{"", "evict -f ci/0123456789abcdef ev/fedcba9876543210", "ci/0123456789abcdef\nTotal reclaimed space: 5MiB\n", "the clone is in use\n  lease: container abc\\u001b has volume web\ndocker repos leases ls names the containers"},
		{"", "evict -f --discard ci/0123456789abcdef", "ci/0123456789abcdef\nTotal reclaimed space: 5MiB\n", ""},
		{"", "evict -f --subject ci", "ci/0123456789abcdef\nTotal reclaimed space: 5MiB\n", ""},
		{"", "evict -f", "", "name either clones or --subject"},
		{"", "evict -f EMPTY", "", "an argument is empty"},
		{"", "evict -f xy", "", `there is no clone "xy"`},
	} {
		args := strings.Fields(c.args)
		if args[len(args)-1] == "EMPTY" {
			args[len(args)-1] = ""
		}
		got := p.run(t, c.input, args...)
		switch {
		case got.out != c.out:
			t.Errorf("%s: got\n%q, want\n%q", c.args, got.out, c.out)
		case c.err == "" && got.failed != nil, c.err != "" && (got.failed == nil || !strings.Contains(got.failed.Error(), c.err)):
			t.Errorf("%s: got %v, want %q", c.args, got.failed, c.err)
		}
	}
}

func TestCredentialsPut(t *testing.T) {
	key := "-----BEGIN KEY-----\nabc\n-----END KEY-----\n"
	for _, c := range []struct {
		input, args string
		want        api.PutCredential
		err         string
	}{
		{"token\n", "--scope https://h --user u", api.PutCredential{Kind: "https", Scope: "https://h", User: "u", Secret: "token"}, ""},
		{"token\r\n", "--scope https://h --kind bearer --subject s", api.PutCredential{Kind: "bearer", Scope: "https://h", Subject: "s", Secret: "token"}, ""},
		{key, "--scope ssh://h --kind ssh-key", api.PutCredential{Kind: "ssh-key", Scope: "ssh://h", Secret: key}, ""},
		{"two\nlines\n", "--scope https://h --user u", api.PutCredential{}, "the secret has a line break"},
		{"\n", "--scope https://h --user u", api.PutCredential{}, "the secret is empty"},
		{strings.Repeat("x", 1<<20+1), "--scope ssh://h --kind ssh-key", api.PutCredential{}, "the secret is longer than"},
		{"x", "", api.PutCredential{}, `required flag(s) "scope" not set`},
	} {
		got := fake{"PUT /v1/credentials/name": body(t, c.want)}.run(t, c.input, append([]string{"credentials", "put", "name"}, strings.Fields(c.args)...)...)
		switch {
		case c.err == "" && (got.failed != nil || got.out != "name\n"):
			t.Errorf("%s: got %q and %v", c.args, got.out, got.failed)
		case c.err != "" && (got.failed == nil || !strings.Contains(got.failed.Error(), c.err)):
			t.Errorf("%s: got %v, want %q", c.args, got.failed, c.err)
		}
		if got.failed != nil && len(got.failed.Error()) > 300 {
			t.Errorf("the error has the secret")
		}
	}
}

func TestSubjectsSet(t *testing.T) {
	five, none := int64(5<<30), int64(0)
	leases := 3
	for args, want := range map[string]api.OwnLimits{
		"--max-size 5GiB":                         {MaxSize: &five, MaxLeases: &leases},
		"--max-size none":                         {MaxSize: &none, MaxLeases: &leases},
		"--max-size default --max-leases default": {},
	} {
		p := fake{
			"GET /v1/subjects/ci": api.Subject{Name: "ci", Limits: api.Limits{Own: api.OwnLimits{MaxLeases: &leases}}},
			"PUT /v1/subjects/ci": func(_ http.ResponseWriter, r *http.Request) {
				got, _ := io.ReadAll(r.Body)
				if want, _ := json.Marshal(want); string(got) != string(want) {
					t.Errorf("%s: got %s, want %s", args, got, want)
				}
			},
		}
		if got := p.run(t, "", append([]string{"subjects", "set", "ci"}, strings.Fields(args)...)...); got.failed != nil || got.out != "ci\n" {
			t.Errorf("%s: got %q and %v", args, got.out, got.failed)
		}
	}
	for _, args := range []string{"--max-size -1", "--max-size much", "--max-leases 1.5", ""} {
		if got := (fake{"GET /v1/subjects/ci": api.Subject{}}).run(t, "", append([]string{"subjects", "set", "ci"}, strings.Fields(args)...)...); got.failed == nil {
			t.Errorf("%q is no error", args)
		}
	}
}

func TestLeasesRelease(t *testing.T) {
	holder := strings.Repeat("ab12", 16)
	p := fake{
		"GET /v1/leases": map[string]any{"leases": []api.Lease{
			{ID: "web/" + holder, Volume: "web", Holder: holder}, {ID: "web/" + holder + "f", Volume: "web", Holder: holder + "f"},
			{ID: "api/cd", Volume: "api", Holder: "cd"},
		}},
		"DELETE /v1/leases/web/" + holder: refuse(http.StatusConflict, api.ErrorAnswer{Error: "a process uses it"}),
		"DELETE /v1/leases/api/cd":        refuse(http.StatusNoContent, api.ErrorAnswer{}),
	}
	both := "\n  web/" + holder + "\n  web/" + holder + "f"
	for arg, want := range map[string]string{
		"api/c": "", "web/" + holder: "a process uses it", "api": "",
		"web/ab": `2 leases begin with "web/ab": name one of them` + both, "web": `volume "web" has 2 leases: name one of them` + both,
		"web/x": `there is no lease "web/x": docker repos leases ls lists them`, "we": `there is no lease "we": docker repos leases ls lists them`,
	} {
		got := p.run(t, "", "leases", "release", arg)
		if want == "" && (got.failed != nil || got.out != arg+"\n") || want != "" && (got.failed == nil || got.failed.Error() != want) {
			t.Errorf("%s: got %q and %v, want %q", arg, got.out, got.failed, want)
		}
	}
}

func TestInspect(t *testing.T) {
	none := refuse(http.StatusNotFound, api.ErrorAnswer{Error: "there is none"})
	p := fake{
		"GET /v1/volumes/{name}": none, "GET /v1/checkpoints/{id}": none, "GET /v1/workspaces/{id}": none,
		"GET /v1/clones": clones, "GET /v1/workspaces": map[string]any{"workspaces": []api.Workspace{}}, "GET /v1/checkpoints": map[string]any{"checkpoints": []api.Checkpoint{}},
		"GET /v1/clones/ci/{hash}": api.CloneDetail{Clone: api.Clone{Clone: "ci/0123456789abcdef", Subject: "ci"}, State: "ready"},
		"GET /v1/leases":           map[string]any{"leases": []api.Lease{}},
		"GET /v1/subjects/ci":      api.Subject{Name: "ci", Clones: 1},
		"GET /v1/subjects/{name}":  none,
	}
	got := p.run(t, "", "inspect", "ci/0123456789abcdef", "ci")
	var all []map[string]any
	if err := json.Unmarshal([]byte(got.out), &all); err != nil || got.failed != nil || len(all) != 2 || all[0]["state"] != "ready" || all[1]["name"] != "ci" {
		t.Errorf("got %s, %v and %v", got.out, err, got.failed)
	}
	for _, format := range []string{"{{.State}} {{.Clone.Clone}}", "{{.state}} {{.clone}}"} {
		if got := p.run(t, "", "inspect", "-f", format, "ci/0123"); got.out != "ready ci/0123456789abcdef\n" {
			t.Errorf("%s: got %q and %v", format, got.out, got.failed)
		}
	}
	got = p.run(t, "", "inspect", "nothing", "ci")
	if got.failed == nil || got.failed.Error() != `no such object: "nothing"` || !strings.Contains(got.out, `"name": "ci"`) {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
	if got = p.run(t, "", "inspect", "--type", "volume", "ci"); got.failed == nil || got.failed.Error() != `no such object: "ci"` || got.out != "[]\n" {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
}

func TestDf(t *testing.T) {
	p := fake{
		"GET /v1/subjects": map[string]any{"subjects": []api.Subject{
			{Name: "a", Size: api.Size{Bytes: 1 << 30}, Classes: api.Classes{Store: api.Size{Bytes: 1 << 30}}},
			{Name: "b", Size: api.Size{Bytes: 2 << 30}, Classes: api.Classes{Tree: api.Size{Bytes: 2 << 30}}, Limits: api.Limits{MaxSize: 5 << 30}, Clones: 2},
		}},
		"GET /v1/stats": api.Stats{
			Size: api.Size{Bytes: 3 << 30}, Own: api.Size{Bytes: 512 << 20}, Trash: api.Size{Bytes: 1536 << 20}, MaxSize: 20 << 30, MinFree: .05,
			Space:    api.Space{Total: api.Size{Bytes: 100 << 30, Inodes: 100}, Free: api.Size{Bytes: 4 << 30, Inodes: 50}},
			Findings: []api.Finding{{Text: "the disk is too full"}}, FindingsAt: time.Now().Add(-3 * time.Minute),
		},
	}
	want := `SUBJECT   SIZE      LIMIT     CLONES    REPOSITORY   FILES     CACHES    WORKSPACES   CHECKPOINTS
b         2GiB      5GiB      2         0B           2GiB      0B        0B           0B
a         1GiB      none      0         1GiB         0B        0B        0B           0B

All clones: 3GiB + 512MiB (database and reserve) + 1.5GiB (being deleted) = 5GiB of 20GiB (MAX_SIZE), 25%
Disk: 4GiB of 100GiB free, 4%, and 50% of the inodes; at least 5% stays free (MIN_FREE)
Warning (3 minutes ago): the disk is too full
`
	if got := p.run(t, "", "df"); got.failed != nil || got.out != want {
		t.Errorf("got %v and\n%s, want\n%s", got.failed, got.out, want)
	}
	if got := p.run(t, "", "df", "--format", "{{.Subject}} {{.Classes.Tree.Bytes}}"); got.out != "b 2147483648\na 0\n" {
		t.Errorf("got %q", got.out)
	}
}

// TestStreams checks operations that end badly.
func TestStreams(t *testing.T) {
	lines := func(all ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, strings.Join(all, "\n")+"\n") }
	}
	progress := `{"status":"receiving\u001b objects","current":1,"total":2}`
	for _, c := range []struct {
		answer        func(http.ResponseWriter, *http.Request)
		out, err, why string
	}{
		{lines(progress, progress, `{"result":{"clone":"default/0123","ref":"main","commit":"abc","size":{"bytes":1024}}}`), "default/0123 is warm: main at abc, 1KiB\n", "receiving\\u001b objects\n", ""},
		{lines(progress, `{"error":"the remote refuses"}`), "", "receiving\\u001b objects\n", "the remote refuses"},
		{lines(progress), "", "receiving\\u001b objects\n", "the answer has no result"},
	} {
		got := fake{"POST /v1/warm": c.answer}.run(t, "", "warm", "https://example.com/app")
		if got.out != c.out || got.err != c.err || (got.failed == nil) != (c.why == "") || got.failed != nil && !strings.Contains(got.failed.Error(), c.why) {
			t.Errorf("got %q, %q and %v, want %q, %q and %q", got.out, got.err, got.failed, c.out, c.err, c.why)
		}
	}
	event := `{"seq":1,"time":"2026-01-02T03:04:05Z","type":"evicted","kind":"clone","clone":"ci/01","text":"unused\nfor long"}`
	got := fake{"GET /v1/events": lines(event)}.run(t, "", "events", "--follow", "--format", "{{.Type}} {{.Clone}}")
	if got.out != "evicted ci/01\n" || got.failed == nil || !strings.Contains(got.failed.Error(), "the plugin has ended the events") {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
	got = fake{"GET /v1/events": lines(event)}.run(t, "", "events", "--follow")
	if !strings.HasSuffix(got.out, " evicted clone ci/01: unused\\u000afor long\n") {
		t.Errorf("got %q", got.out)
	}
}

func TestEventsOfPeriod(t *testing.T) {
	at := func(year int) api.Event {
		return api.Event{Type: fmt.Sprint(year), Time: time.Date(year, 1, 1, 0, 0, 0, 0, time.Local)}
	}
	p := fake{"GET /v1/events": map[string]any{"events": []api.Event{at(2020), at(2022), at(2024), at(2026)}}}
	for args, want := range map[string]string{
		"--since 2022-01-01":                          "2022\n2024\n2026\n",
		"--since 2022-01-01T00:00:01 --until 2026-01": "--until: \"2026-01\" is neither",
		"--until 2024-01-01T00:00:00":                 "2020\n2022\n",
		"--since 1h":                                  "",
		"--until 1h":                                  "2020\n2022\n2024\n2026\n",
		"--since -1h":                                 "--since: \"-1h\" is neither",
	} {
		got := p.run(t, "", append([]string{"events", "--format", "{{.Type}}"}, strings.Fields(args)...)...)
		if got.failed != nil && !strings.HasPrefix(got.failed.Error(), want) || got.failed == nil && got.out != want {
			t.Errorf("%s: got %q and %v, want %q", args, got.out, got.failed, want)
		}
	}
}

func TestAudit(t *testing.T) {
	uid := int64(0)
	records := []api.AuditRecord{
		{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Action: "mount", Result: "ok", Actor: api.Actor{Kind: "engine"}, Subject: "ci", Volume: "web", Commit: "abc", VolumeID: "v1", Request: "r1",
			Took: 1234567890, Phases: map[string]time.Duration{"fetch": 12345678}, Waits: map[string]time.Duration{"a turn (cpu)": time.Millisecond}},
		{Action: "credential.put", Result: "failed", Actor: api.Actor{Kind: "user", UID: &uid, Claim: "bob result=ok\n"}, Name: "x y", Error: "no\nline", Lost: 2,
			Changes: map[string]api.Change{"max_size": {From: "", To: "5"}}},
	}
	p := fake{"GET /v1/audit": func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("subject") != "ci" || q.Get("since") == "" || q.Get("until") != "" || q.Get("action") != "mount" {
			t.Errorf("got the query %s", r.URL.RawQuery)
		}
		for _, record := range records {
			json.NewEncoder(w).Encode(record)
		}
	}}
	got := p.run(t, "", "audit", "--subject", "ci", "--since", "24h", "--action", "mount")
	want := []string{
		"TIME ACTOR ACTION RESULT SUBJECT VOLUME DETAIL",
		records[0].Time.Local().Format(time.RFC3339) + ` engine mount ok ci web commit=abc took=1.23s fetch=12.3ms waited="a turn (cpu) 1ms" volume_id=v1 request=r1`,
		`uid=0 claim="bob result=ok\n" credential.put failed error="no\nline" name="x y" max_size=""->5 (2 records before this one are lost)`,
	}
	lines := strings.Split(got.out, "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if got.failed != nil || len(lines) != 4 || lines[0] != want[0] || lines[1] != want[1] || !strings.HasSuffix(lines[2], want[2]) {
		t.Errorf("got %v and\n%s, want\n%s", got.failed, got.out, strings.Join(want, "\n"))
	}
	got = p.run(t, "", "audit", "--subject", "ci", "--since", "24h", "--action", "mount", "--follow", "--format", "{{.Action}} {{.Phases.fetch}}")
	if got.out != "mount 12.345678ms\ncredential.put <no value>\n" {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
	got = p.run(t, "", "audit", "--subject", "ci", "--since", "24h", "--action", "mount", "--follow")
	if lines := strings.Split(got.out, "\n"); len(lines) != 3 || strings.Join(strings.Fields(lines[0]), " ") != want[1] {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
	got = p.run(t, "", "audit", "--subject", "ci", "--since", "24h", "--action", "mount", "--follow", "--format", "table {{.Action}}")
	if got.failed == nil || !strings.Contains(got.failed.Error(), "leave the word table out of --format") || got.out != "" {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
	if got = p.run(t, "", "audit", "--tail", "none"); got.failed == nil || !strings.Contains(got.failed.Error(), "--tail:") {
		t.Errorf("got %v", got.failed)
	}
	got = p.run(t, "", "audit", "--subject", "ci", "--since", "24h", "--action", "mount", "--follow", "--format", "json")
	if got.failed == nil || !strings.Contains(got.failed.Error(), "the plugin has ended the audit log") || !strings.HasPrefix(got.out, `{"seq":0,"time":"2026-01-02T03:04:05Z","action":"mount"`) {
		t.Errorf("got %q and %v", got.out, got.failed)
	}
}

func TestComplete(t *testing.T) {
	p := fake{
		"GET /v1/clones":      clones,
		"GET /v1/subjects":    map[string]any{"subjects": []api.Subject{{Name: "ci"}, {Name: "$(reboot)"}, {Name: "a\nb"}, {Name: "-f"}, {Name: "team/a"}}},
		"GET /v1/checkpoints": map[string]any{"checkpoints": []api.Checkpoint{{ID: "d1", Volume: "removed"}, {ID: "d2", Volume: "removed"}}},
		"GET /v1/volumes":     map[string]any{"volumes": []api.Volume{}},
		"GET /v1/leases":      map[string]any{"leases": []api.Lease{}},
		"GET /v1/workspaces":  map[string]any{"workspaces": []api.Workspace{}},
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"evict", ""}, "ci/0123456789abcdef\nev/fedcba9876543210\n:4\n"},
		{[]string{"evict", "ci/0123456789abcdef", ""}, "ev/fedcba9876543210\n:4\n"},
		{[]string{"ls", "--subject", ""}, "ci\nteam/a\n:4\n"},
		{[]string{"subjects", "set", "t"}, "team/a\n:4\n"},
		{[]string{"subjects", "set", "ci", ""}, ":4\n"},
		{[]string{"version", ""}, ":4\n"},
		{[]string{"checkpoints", "ls", "--volume", ""}, "removed\n:4\n"},
		{[]string{"inspect", "d"}, "d1\nd2\n:4\n"},
	} {
		if got := p.run(t, "", append([]string{"__complete"}, c.args...)...); got.out != c.want {
			t.Errorf("%q: got %q, want %q; %s", c.args, got.out, c.want, got.err)
		}
	}
}

// TestStopped checks the error of a plugin that has stopped.
func TestStopped(t *testing.T) {
	got := runAt(t, filepath.Join(t.TempDir(), "admin.sock"), "", "ls")
	if got.failed == nil || !strings.Contains(got.failed.Error(), "no such file") {
		t.Errorf("got %v", got.failed)
	}
}
