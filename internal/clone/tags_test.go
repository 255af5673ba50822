package clone

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testworld"
	"github.com/helmdeck/repos/tests/wait"
)

// manyBranches gives the remote more branches than a question lists.
func (w *world) manyBranches(n int) {
	w.T.Helper()
	main := w.remote("rev-parse", "refs/heads/main")
	packed := filepath.Join(w.Server.Path("r"), "packed-refs")
	w.remote("pack-refs", "--all")
	data, err := os.ReadFile(packed)
	if err != nil {
		w.T.Fatal(err)
	}
	before, after, _ := bytes.Cut(data, []byte(main+" refs/heads/main\n"))
	many := bytes.NewBuffer(slices.Clone(before))
	fmt.Fprintf(many, "%s refs/heads/main\n", main)
	for i := range n {
		fmt.Fprintf(many, "%s refs/heads/many/%06d\n", main, i)
	}
	many.Write(after)
	if err := os.WriteFile(packed, many.Bytes(), 0o644); err != nil {
		w.T.Fatal(err)
	}
}

// wrapListings puts a fault in front of requests that list all branches.
func (w *world) wrapListings(fault gitserver.Fault) {
	w.Server.Wrap(gitserver.On(gitserver.LsRefs, func(next http.Handler) http.Handler {
		faulty := fault(next)
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("ref-prefix refs/heads/\n")) {
				faulty.ServeHTTP(rw, r)
			} else {
				next.ServeHTTP(rw, r)
			}
		})
	}))
}

// A tag of the commit that is mounted is there at the first mount that asks, however many
// branches there are, whichever way the remote is asked, and whatever the store has.
func TestTagsOfTheCommit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		options  []string
		fault    gitserver.Fault
		branches int
	}{
		{name: "full"},
		{name: "full, many branches", branches: 3000},
		{name: "depth", options: []string{"depth", "1"}},
		{name: "depth, many branches", options: []string{"depth", "1"}, branches: 300},
		{name: "filter", options: []string{"filter", "blob:none"}},
		{name: "filter, many branches", options: []string{"filter", "blob:none"}, branches: 300},
		{name: "both", options: []string{"filter", "blob:none", "depth", "2"}, branches: 300},
		{name: "protocol 0", fault: gitserver.ProtocolZero()},
		{name: "protocol 0, depth, many branches", options: []string{"depth", "1"}, fault: gitserver.ProtocolZero(), branches: 300},
		{name: "protocol 0, filter, many branches", options: []string{"filter", "blob:none"}, fault: gitserver.ProtocolZero(), branches: 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 4)
			t.Parallel()
			w := newWorld(t, "")
			for _, key := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
				if err := w.Server.Configure("r", key, "true"); err != nil {
					t.Fatal(err)
				}
			}
			w.Server.Wrap(tt.fault)
			if tt.branches > 0 {
				w.manyBranches(tt.branches)
			}
			s := w.spec(append([]string{"ref", "main"}, tt.options...)...)
			other := w.spec(append([]string{"ref", "feature/x"}, tt.options...)...)
			w.prepare(s).Release()
			for _, step := range []struct {
				name string
				do   func()
				of   Spec
			}{
				{"lightweight", func() { w.remote("tag", "light", "main") }, s},
				{"annotated", func() { w.remote("tag", "-a", "-m", "x", "heavy", "main") }, s},
				{"tag of a tag", func() { w.remote("tag", "-a", "-m", "x", "outer", "heavy") }, s},
				{"two at once", func() {
					w.remote("tag", "-a", "-m", "x", "one", "main")
					w.remote("tag", "-a", "-m", "x", "two", "main")
				}, s},
				{"annotated again", func() { w.remote("tag", "-f", "-a", "-m", "y", "heavy", "main") }, s},
				{"moved here", func() { w.remote("tag", "-f", "-a", "-m", "y", "v1.0.0", "main") }, s},
				{"annotated becomes lightweight", func() { w.remote("tag", "-f", "one", "main") }, s},
				{"deleted", func() { w.remote("tag", "-d", "two") }, s},
				{"a directory in place of a tag", func() {
					w.remote("tag", "-d", "light")
					w.remote("tag", "-a", "-m", "x", "light/1", "main")
				}, s},
				{"tag of another branch", func() { w.remote("tag", "-a", "-m", "x", "x", "feature/x") }, other},
				{"tag of a tag, both new", func() {
					w.remote("tag", "-a", "-m", "x", "inner", "main")
					w.remote("tag", "-a", "-m", "x", "deep", "inner")
					w.remote("tag", "-d", "inner")
				}, s},
			} {
				// During a fetch of other refs a Mount shows those of before, and the wait for the next listing uses nothing.
				wait.For(t, "the fetch of other refs", func() error {
					return wait.Check(!w.clone(s).remote.WantsOthers(s.History), "it is not done")
				})
				w.idle(w.clone(s))
				step.do()
				w.Server.Reset()
				if got, want := w.shown(step.of), w.there(); got != want {
					t.Errorf("%s:\n got %s\nwant %s", step.name, got, want)
				}
			}
			w.idle(w.clone(s))
			if !s.History.NoBlobs {
				run(t, w.clone(s).remote.StoreDir(s.History.Name()), testworld.Fetcher, "--git-dir=.", "fsck", "--connectivity-only")
			}
		})
	}
}

// The objects of a tag of the mounted commit are fetched with one request, and no process of
// git's fetch.
func TestTagCostsOneRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main", "depth", "1")
	w.prepare(s).Release()
	w.remote("tag", "-a", "-m", "x", "heavy", "main")
	w.Server.Reset()
	w.prepare(s).Release()
	if got := w.Server.Stats("r"); got.LsRefs != 1 || got.Fetches != 1 || got.Infos != 0 {
		t.Errorf("%+v, want a question and a fetch", got)
	}
}

// Other refs of a repository with many branches, or many tags, are listed in the background
// and there at a later mount.
func TestManyOtherRefsChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		options []string
		fault   gitserver.Fault
		tags    int
	}{
		{"branches", nil, nil, 0},
		{"branches and tags", nil, nil, 250},
		{"depth", []string{"depth", "1"}, nil, 0},
		{"filter", []string{"filter", "blob:none"}, nil, 0},
		{"protocol 0", nil, gitserver.ProtocolZero(), 250},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 3)
			t.Parallel()
			w := newWorld(t, "")
			if err := w.Server.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
				t.Fatal(err)
			}
			w.Server.Wrap(tt.fault)
			w.manyBranches(300)
			for i := range tt.tags {
				w.remote("tag", fmt.Sprintf("many/%d", i), "main")
			}
			s := w.spec(append([]string{"ref", "main"}, tt.options...)...)
			w.prepare(s).Release()
			for _, step := range []struct {
				name string
				do   func()
			}{
				{"new branch", func() { w.Push("new") }},
				{"pushed branch", func() { w.Push("new") }},
				{"branch moved to a known commit", func() { w.remote("update-ref", "refs/heads/many/000007", "feature/x") }},
				{"deleted branches", func() {
					w.remote("update-ref", "-d", "refs/heads/many/000000")
					w.remote("update-ref", "-d", "refs/heads/new")
				}},
				{"tags", func() {
					w.remote("tag", "-a", "-m", "x", "heavy", "feature/x")
					w.remote("tag", "-a", "-m", "x", "here", "main")
					w.remote("tag", "-f", "v1.0.0", "feature/x")
				}},
				{"deleted tag", func() { w.remote("tag", "-d", "heavy") }},
			} {
				step.do()
				// A mount lists them, and a later one shows them.
				wait.For(t, step.name, func() error { return wait.Equal(w.shown(s), w.there()) })
			}
		})
	}
}

// However many mounts come during a listing, one other listing follows.
func TestListingsAreShared(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	w := newWorld(t, "")
	w.manyBranches(300)
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	w.idle(w.clone(s))
	held := testgit.Hold()
	w.wrapListings(held.Fault)
	w.Server.Reset()
	w.prepare(s).Release()
	<-held.Answered // without the branch that follows
	w.remote("branch", "new", "main")
	const mounts = 10
	for range mounts {
		w.prepare(s).Release()
	}
	if asked := w.Server.Stats("r").LsRefs; asked != 1+mounts+1 {
		t.Errorf("%d questions, want that of each mount, and a listing", asked)
	}
	close(held.Open)
	<-held.Answered // the other listing
	<-held.Answered // git, which fetches
	c := w.clone(s)
	store := c.remote.StoreDir("full")
	wait.For(t, "the new branch in the store", func() error {
		data, err := os.ReadFile(filepath.Join(store, "packed-refs"))
		return wait.Check(err == nil && strings.Contains(string(data), " refs/heads/new\n"), "packed-refs: %s, %v", data, err)
	})
	w.idle(c)
	if asked := w.Server.Stats("r").LsRefs; asked != 1+mounts+3 {
		t.Errorf("%d questions, want two listings and one for the fetch besides", asked)
	}
}

// More refs than are listed in the background stay as they are until the volume's own moves. The log says so once.
func TestTooManyOtherRefs(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	w := newWorld(t, "")
	log := test.NewLocal(w.data.Log)
	w.manyBranches(50_000)
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	w.idle(c)
	w.remote("branch", "new", "main")
	w.remote("tag", "-a", "-m", "x", "here", "main")
	w.Server.Reset()
	got := w.shown(s)
	if !strings.Contains(got, "refs/tags/here ") || strings.Contains(got, "refs/heads/new ") {
		t.Error("want the tag of the commit, without the branch")
	}
	w.idle(c)
	if got := w.Server.Stats("r"); got.LsRefs != 1 || got.Fetches != 1 {
		t.Errorf("%+v, want a question, and a fetch of the tag", got)
	}
	w.shown(s)
	w.idle(c)
	var warnings []string
	for _, e := range log.AllEntries() {
		if e.Level == logrus.WarnLevel {
			warnings = append(warnings, e.Message)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "more than 50000 (setting SIZE_FACTOR)") {
		t.Errorf("warnings %q, want one", warnings)
	}
	w.Push("main")
	if got, want := w.shown(s), w.there(); got != want {
		t.Errorf("after a push: got %d bytes of refs, want %d", len(got), len(want))
	}
}

// A remote lists tags of the mounted commit that it does not have. Mounts succeed, show the
// others, and do not each ask for them again.
func TestTagsMissingAtRemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.remote("tag", "-a", "-m", "x", "heavy", "feature/x")
	w.prepare(s).Release()
	c := w.clone(s)
	w.idle(c)
	main, heavy := w.remote("rev-parse", "main"), w.remote("rev-parse", "heavy")
	w.Server.Wrap(gitserver.Advertise(slices.Values([]gitserver.Ref{
		{ID: main, Name: "HEAD", Target: "refs/heads/main"}, {ID: main, Name: "refs/heads/main"},
		{ID: strings.Repeat("1", 40), Name: "refs/tags/gone", Peeled: main},
		{ID: heavy, Name: "refs/tags/lie", Peeled: main},
		{ID: main, Name: "refs/tags/light"},
	})))
	var fetches []int
	for range 4 {
		w.Server.Reset()
		want := "refs/heads/main " + main + "\nrefs/tags/lie " + heavy + " " + w.remote("rev-parse", "feature/x") + "\nrefs/tags/light " + main
		if got := w.shown(s); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		w.idle(c)
		_, n, _ := w.requests()
		fetches = append(fetches, n)
	}
	if fetches[0] == 0 || fetches[2] > 0 || fetches[3] > 0 {
		t.Errorf("%v fetches, want some at first, and then none", fetches)
	}
}

// A remote does not send the tags of the mounted commit. One mount waits for them, and then
// shows what the store has; the next ones do not wait.
func TestTagsThatDoNotCome(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	w.idle(w.clone(s))
	w.remote("tag", "-a", "-m", "x", "heavy", "main")
	w.remote("tag", "light", "main")
	gate := gitserver.NewGate()
	w.Server.Wrap(gitserver.On(gitserver.Fetch, gate.Fault))
	for i := range 3 {
		if got := w.shown(s); !strings.Contains(got, "refs/tags/light ") || strings.Contains(got, "refs/tags/heavy ") {
			t.Errorf("mount %d: %s", i, got)
		}
	}
	<-gate.Arrived // for the mount
	<-gate.Arrived // in the background
	if n := len(gate.Arrived); n > 0 {
		t.Errorf("%d more fetches", n)
	}
	close(gate.Open)
	wait.For(t, "the tag", func() error { return wait.Equal(w.shown(s), w.there()) })
}
