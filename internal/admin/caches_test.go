package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/warm"
	"github.com/helmdeck/repos/janitor"
)

// TestCachePages: all pages together have each cache once, sorted by clone, uid and gid, however many a clone
// has. A page does not describe all clones.
func TestCachePages(t *testing.T) {
	config := populated()
	k := config.Janitor.(*keeper)
	k.holdings.Clones = nil
	lists := make(map[string][]warm.CacheInfo)
	var want []string
	for i := range 50 {
		key := fmt.Sprintf("s%d/%016x", i/10, i)
		k.holdings.Clones = append(k.holdings.Clones, janitor.CloneInfo{Clone: key, Subject: key[:2]})
		for n := range []int{1, 0, 3, 1, 1}[i%5] {
			uid := []uint32{3, 20, 4294967295}[n]
			lists[key] = append(lists[key], warm.CacheInfo{UID: uid, GID: 20}, warm.CacheInfo{UID: uid, GID: 100})
			want = append(want, fmt.Sprint(key, " ", uid, " 20"), fmt.Sprint(key, " ", uid, " 100"))
		}
	}
	config.Caches.(*caches).list = lists
	h := Handler(config)
	for limit := 1; limit < len(want)+2; limit += 1 + limit/3 {
		var got []string
		for after := ""; ; {
			w := httptest.NewRecorder()
			k.described = 0
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/v1/caches?limit=%d&after=%s", limit, url.QueryEscape(after)), nil))
			var page struct {
				Caches []api.Cache
				Next   string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK || len(page.Caches) == 0 || len(page.Caches) > limit {
				t.Fatalf("%d %s, %v", w.Code, w.Body, err)
			}
			if most := 2 * (limit + 1); k.described > most {
				t.Errorf("a page of %d caches described %d clones, want at most %d", limit, k.described, most)
			}
			for _, c := range page.Caches {
				got = append(got, fmt.Sprint(c.Clone, " ", c.UID, " ", c.GID))
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("pages of %d: got\n%q, want\n%q", limit, got, want)
		}
	}
}

func TestDropCache(t *testing.T) {
	ctx, config := t.Context(), populated()
	log, logged := logger()
	config.Log, config.Audit = log, trail(t)
	held := config.Caches.(*caches)
	c := client(t, config)
	o := options("team a", "https://h/x")
	key := clone.Key(o.Subject, o.Repo)
	uid, none := uint32(1000), uint32(1)
	for _, parts := range []api.CacheParts{{}, {UID: &uid}, {Path: "npm/_cacache"}, {UID: &uid, Path: "npm/_cacache"}} {
		if d, err := c.DropCache(ctx, key, parts); err != nil || d.Freed != (api.Size{Bytes: 2 << 12, Inodes: 2}) {
			t.Errorf("%+v: got %+v, %v", parts, d, err)
		}
	}
	want := []string{"all", "all of the uid 1000", `path "npm/_cacache"`, `path "npm/_cacache" of the uid 1000`}
	for i, text := range want {
		if i >= len(held.gone) || held.gone[i] != text+" in "+key {
			t.Errorf("dropped %q, want %q", held.gone, want)
			break
		}
	}
	list := follow(t, c, api.AuditFilter{Action: "cache.remove", Subject: "team a"}, 4)
	for i, r := range list {
		if r.Result != "ok" || r.Clone != key || r.Repo != "https://h/x" || r.Text != want[i] || r.Bytes != 2<<12 {
			t.Errorf("recorded %+v", r)
		}
	}
	if !strings.Contains(logged.String(), "cache dropped") {
		t.Errorf("logged %q", logged)
	}
	held.gone = nil
	for _, tt := range []struct {
		clone  string
		parts  api.CacheParts
		status int
		want   string
	}{
		{key + "0", api.CacheParts{}, 404, "there is no clone"},
		{"../..", api.CacheParts{}, 404, "there is no clone"},
		{key, api.CacheParts{UID: &none}, 404, "has no cache of the uid 1"},
		{key, api.CacheParts{Path: "npm/_cache"}, 404, `nothing is published at "npm/_cache" in the cache of clone`},
		{key, api.CacheParts{UID: &uid, Path: "npm"}, 404, `nothing is published at "npm" in the cache of the uid 1000 of clone`},
		{key, api.CacheParts{Path: "/npm"}, 400, "it is not relative and clean; allowed is a path below the cache, such as npm/_cacache"},
		{key, api.CacheParts{Path: "npm/"}, 400, "it is not relative and clean"},
		{key, api.CacheParts{Path: "../store"}, 400, "it is not relative and clean"},
		{key, api.CacheParts{Path: "npm/../../x"}, 400, "it is not relative and clean"},
		{key, api.CacheParts{Path: "."}, 400, "it is not relative and clean"},
		{key, api.CacheParts{Path: "a//b"}, 400, "it is not relative and clean"},
		{key, api.CacheParts{Path: "a\x00b"}, 400, "it has a zero byte"},
		{key, api.CacheParts{Path: strings.Repeat("a", 4097)}, 400, "it is longer than 4096 bytes"},
		{key, api.CacheParts{Path: ".git/hdcache/npm"}, 400, "it begins at the checkout"},
		{key, api.CacheParts{Path: ".hdcache"}, 400, "it begins at the checkout"},
	} {
		var refused *api.Error
		if _, err := c.DropCache(ctx, tt.clone, tt.parts); !errors.As(err, &refused) || refused.Status != tt.status || !strings.Contains(refused.Message, tt.want) {
			t.Errorf("%s %+v: got %v, want %d %s", tt.clone, tt.parts, err, tt.status, tt.want)
		}
	}
	for _, query := range []string{"uid=-1", "uid=root", "uid=4294967296", "gid=1", "uid=1&uid=2"} {
		w := httptest.NewRecorder()
		Handler(config).ServeHTTP(w, httptest.NewRequest(http.MethodDelete, "/v1/clones/"+strings.ReplaceAll(key, "%", "%25")+"/cache?"+query, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if len(held.gone) > 0 {
		t.Errorf("dropped %q", held.gone)
	}
}

// TestDropCacheEnds: dropping a cache ends when the client hangs up, and when it takes too long.
func TestDropCacheEnds(t *testing.T) {
	config := populated()
	key := config.Janitor.(*keeper).holdings.Clones[0].Clone
	begun, ended := make(chan bool, 1), make(chan error, 1)
	config.Caches.(*caches).drop = func(ctx context.Context) error {
		begun <- true
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	}
	c := client(t, config)
	ctx, hangUp := context.WithCancel(t.Context())
	go func() {
		<-begun
		hangUp()
	}()
	if _, err := c.DropCache(ctx, key, api.CacheParts{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	dropTime = time.Millisecond
	defer func() { dropTime = 15 * time.Minute }()
	var refused *api.Error
	if _, err := c.DropCache(t.Context(), key, api.CacheParts{}); !errors.As(err, &refused) || refused.Status != 503 || !strings.Contains(refused.Message, "it takes longer than 1ms") {
		t.Errorf("got %v", err)
	}
}

func TestPublishCache(t *testing.T) {
	config := populated()
	config.Audit = trail(t)
	h := config.Workspaces.(*heap)
	var asked []string
	var fail error
	h.published = func(_ context.Context, id string) (cache.Result, error) {
		asked = append(asked, id)
		return cache.Result{Files: 3, Size: disk.Size{Bytes: 9 << 10, Inodes: 5}, Left: []string{"a: it is too large"}}, fail
	}
	c, ctx := client(t, config), t.Context()
	want := api.PublishedCache{Files: 3, Bytes: 9 << 10, Left: []string{"a: it is too large"}}
	if got, err := c.PublishCache(ctx, "w"); err != nil || !reflect.DeepEqual(got, want) || !slices.Equal(asked, []string{"w"}) {
		t.Errorf("%+v, %v; asked for %q", got, err, asked)
	}
	for _, tt := range []struct {
		fail   error
		status int
	}{
		{&workspace.NoWorkspaceError{ID: "w"}, 404},
		{&workspace.InUseError{Reason: "it is being mounted"}, 409},
		{&workspace.NoCacheError{Reason: "it has cache=off"}, 409},
		{context.DeadlineExceeded, 503},
		{errors.New("the disk is gone"), 500},
	} {
		fail = tt.fail
		var refused *api.Error
		if _, err := c.PublishCache(ctx, "w"); !errors.As(err, &refused) || refused.Status != tt.status || refused.Message != tt.fail.Error() {
			t.Errorf("got %v, want %d %v", err, tt.status, tt.fail)
		}
	}
	r := follow(t, c, api.AuditFilter{Action: "cache.publish", Subject: "team a"}, 6)
	if r[0].Result != "ok" || r[0].Workspace != "w" || r[0].Checkpoint != "" || r[0].Volume != "v" || r[0].Repo != "https://h/x" || r[0].Clone == "" || r[3].Error != "it has cache=off" {
		t.Errorf("recorded %+v", r)
	}
	begun, ended := make(chan bool, 1), make(chan error, 1)
	h.published = func(ctx context.Context, _ string) (cache.Result, error) {
		begun <- true
		<-ctx.Done()
		ended <- ctx.Err()
		return cache.Result{}, ctx.Err()
	}
	ctx, hangUp := context.WithCancel(ctx)
	go func() {
		<-begun
		hangUp()
	}()
	if _, err := c.PublishCache(ctx, "w"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("publishing got %v", err)
	}
}
