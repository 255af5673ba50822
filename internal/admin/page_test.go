package admin

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/testapi"
)

// get requests a page, and returns its keys and that of the next page.
func get(t *testing.T, h http.Handler, path, name, key string) (keys []string, next string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	var records []map[string]any
	var page map[string]json.RawMessage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
		t.Fatalf("GET %s: %d %s", path, w.Code, w.Body)
	}
	if err := json.Unmarshal(page[name], &records); err != nil {
		t.Fatal(err)
	}
	if page["next"] != nil {
		if err := json.Unmarshal(page["next"], &next); err != nil || next == "" {
			t.Fatalf("GET %s: next is %s", path, page["next"])
		}
	}
	for _, r := range records {
		keys = append(keys, r[key].(string))
	}
	return keys, next
}

// TestPages checks that the pages have each record once, in the order of the keys, whatever
// characters a key has.
func TestPages(t *testing.T) {
	names := []string{
		"a", "a b", "a&b", "a+b", "a%2Fb", "%", "a=b;c", "#", "?", "\"", `\`, "ä", "\u00e9", "e\u0301", "日本", "🦊", "\u2028", "<script>", "'", "a,b", "[]", "null", " ", "~", "zz",
	}
	var volumes shelf
	for i, name := range rand.Perm(len(names)) {
		volumes = append(volumes, verbs.Volume{Name: names[name], CreatedAt: at, Options: options(fmt.Sprint("line\nbreak ", i), "https://h/x")})
	}
	log, _ := logger()
	config := populated()
	config.Log, config.Volumes = log, volumes
	h := testapi.Documented(t, Handler(config))
	slices.Sort(names)
	for limit := 1; limit <= len(names)+1; limit++ {
		var got []string
		for after := ""; ; {
			keys, next := get(t, h, fmt.Sprintf("/v1/volumes?limit=%d&after=%s", limit, url.QueryEscape(after)), "volumes", "name")
			if len(keys) > limit || next != "" && (len(keys) < limit || next != keys[len(keys)-1]) {
				t.Fatalf("limit %d after %q: %q, next %q", limit, after, keys, next)
			}
			got = append(got, keys...)
			if after = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, names) {
			t.Fatalf("limit %d: got\n%q\nwant\n%q", limit, got, names)
		}
	}
	if subjects, err := api.Dial(serve(t, h)).Subjects(t.Context(), api.Filter{}); err != nil || len(subjects) != len(names)+1 {
		t.Errorf("%d subjects, %v", len(subjects), err)
	}
}

// TestVanishedBetweenPages checks that records that are removed or added between two pages, also
// the one that the next page begins after, change nothing for all others.
func TestVanishedBetweenPages(t *testing.T) {
	log, _ := logger()
	stock := &heap{}
	for i := range 10 {
		stock.all = append(stock.all, meta.Workspace{ID: fmt.Sprint("w", i), Clone: "s/1", MountedAt: at})
	}
	h := testapi.Documented(t, Handler(Config{Workspaces: stock, Log: log}))
	keys, next := get(t, h, "/v1/workspaces?limit=3", "workspaces", "id")
	stock.all = slices.DeleteFunc(stock.all, func(w meta.Workspace) bool { return w.ID == next || w.ID == "w5" })
	stock.all = append(stock.all, meta.Workspace{ID: "w00", Clone: "s/1", MountedAt: at}, meta.Workspace{ID: "w30", Clone: "s/1", MountedAt: at})
	more, last := get(t, h, "/v1/workspaces?after="+next, "workspaces", "id")
	if want := "w0 w1 w2 w3 w30 w4 w6 w7 w8 w9"; strings.Join(append(keys, more...), " ") != want || last != "" {
		t.Errorf("got %q and %q, want %s", keys, more, want)
	}
	stock.all = nil
	if keys, next := get(t, h, "/v1/workspaces?after="+next, "workspaces", "id"); len(keys) != 0 || next != "" {
		t.Errorf("an empty page: %q, %q", keys, next)
	}
}

func TestRefusedQueries(t *testing.T) {
	config := populated()
	h := testapi.Documented(t, Handler(config))
	for query, want := range map[string]string{
		"limit=0": "allowed is a number from 1 to 1000", "limit=1001": "from 1 to 1000", "limit=-1": "from 1 to 1000", "limit=x": "from 1 to 1000",
		"limit=99999999999999999999": "from 1 to 1000", "limit=1&limit=2": "limit more than once", "subjects=s": "allowed are after, clone, limit",
		"a;b": "malformed", "%zz": "malformed", "repo=nonsense": "nonsense",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/volumes?"+query, nil))
		if w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: got %d %s, want %q", query, w.Code, w.Body, want)
		}
	}
	for query, want := range map[string]string{
		"after=x": "the seq of an event", "follow=yes": "true and false", "limit=0": "1 to 1000", "subject=s": "allowed are after, follow, limit",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/events?"+query, nil))
		if w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("events %s: got %d %s, want %q", query, w.Code, w.Body, want)
		}
	}
}

// TestManyRecords checks that the client gets all of 10,000 records, and how many requests that takes.
func TestManyRecords(t *testing.T) {
	const n = 10_000
	log, _ := logger()
	stock := &heap{}
	for i := range n {
		id := fmt.Sprintf("%016x", uint64(i)*0x9e3779b97f4a7c15)
		stock.all = append(stock.all, meta.Workspace{ID: id, Clone: fmt.Sprintf("s%d/1", i%100), Volume: "v" + id, Leases: meta.Leases{id}, MountedAt: at})
		stock.list = append(stock.list, workspace.Checkpoint{ID: id, Clone: "s/1", EndedAt: at, ExpiresAt: at})
	}
	var requests atomic.Int64
	h := Handler(Config{Workspaces: stock, Log: log})
	c := api.Dial(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		h.ServeHTTP(w, r)
	})))
	counters := counters(t.Context(), c)
	for _, name := range []string{"workspaces", "leases", "checkpoints"} {
		requests.Store(0)
		if got, err := counters[name](api.Filter{}); err != nil || got != n || requests.Load() != n/api.MaxLimit {
			t.Errorf("%d %s in %d requests, %v", got, name, requests.Load(), err)
		}
	}
	if got, err := counters["leases"](api.Filter{Subject: "s7"}); err != nil || got != n/100 {
		t.Errorf("%d leases of one subject, %v", got, err)
	}
}

// TestClonePages checks that a page of clones takes a look at its own clones only, with and without a
// filter.
func TestClonePages(t *testing.T) {
	const subjects, each, limit = 20, 10, 8
	k := &keeper{}
	for s := range subjects {
		for n := range each {
			name := fmt.Sprintf("team %02d", s)
			key := fmt.Sprintf("%s/%016x", volume.Subject(name).Dir(), n)
			k.holdings.Clones = append(k.holdings.Clones, janitor.CloneInfo{Clone: key, Subject: name, Repo: "https://h/x", Used: at})
		}
	}
	log, _ := logger()
	h := testapi.Documented(t, Handler(Config{Janitor: k, Log: log}))
	for query, want := range map[string]int{"": subjects * each, "&subject=team+07": each, "&subject=team%252007": 0, "&subject=none": 0} {
		k.described = 0
		var got []string
		pages := 1
		for after := ""; ; pages++ {
			keys, next := get(t, h, fmt.Sprintf("/v1/clones?limit=%d&after=%s%s", limit, url.QueryEscape(after), query), "clones", "clone")
			got = append(got, keys...)
			if after = next; next == "" {
				break
			}
		}
		if len(got) != want || !slices.IsSorted(got) || len(slices.Compact(got)) != want {
			t.Errorf("%q: got %q, want %d clones", query, got, want)
		}
		if most := want + pages; k.described > most { // and the first one of the next page
			t.Errorf("%q: %d pages with %d clones described %d, want at most %d", query, pages, want, k.described, most)
		}
	}
	u, err := volume.ParseURL("https://h/x", volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	k.holdings.Clones[0].Clone = "%2A/" + u.Hash()
	if keys, next := get(t, h, "/v1/clones?repo=https://h/x", "clones", "clone"); len(keys) != 1 || next != "" {
		t.Errorf("of one repository: %q, %q", keys, next)
	}
}

// TestOddNames checks that the client reaches a subject, whatever characters its name has. Only
// the name / is no segment of a path for net/http.
func TestOddNames(t *testing.T) {
	names := []string{".", "..", "...", "a/b", "//", "a/../b", "a\nb", "?", "#", "%", "%2F", "%2e", "a b", "+", "ä", `\`, "\x7f", "*", "{name}", ":"}
	config := populated()
	var volumes shelf
	for i, name := range names {
		volumes = append(volumes, verbs.Volume{Name: fmt.Sprint(i), CreatedAt: at, Options: options(name, "https://h/x")})
	}
	config.Volumes = volumes
	c := client(t, config)
	for _, name := range names {
		if s, err := c.Subject(t.Context(), name); err != nil || s.Name != name || s.Volumes != 1 {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
	}
}
