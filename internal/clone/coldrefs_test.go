package clone

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// refsOf returns the refs of a repository below prefixes of refs/, without these.
func refsOf(t *testing.T, dir string, below ...string) (names []string) {
	t.Helper()
	for _, prefix := range below {
		args := []string{"for-each-ref", "--format=%(refname:lstrip=" + strconv.Itoa(strings.Count(prefix, "/")+1) + ")", "refs/" + prefix}
		names = append(names, strings.Fields(run(t, dir, 0, args...))...)
	}
	return names
}

// What a remote does not serve without its history waits for the full history.
func TestColdRefs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		ref     func(w *world) string
		fault   func(w *world) gitserver.Fault
		shallow bool
		refs    []string // if shallow
		err     giterror.Kind
	}{
		{name: "the default branch", ref: func(*world) string { return "HEAD" }, shallow: true,
			refs: []string{"heads/main", "remotes/origin/HEAD", "remotes/origin/main"}},
		{name: "a branch", ref: func(*world) string { return "feature/x" }, shallow: true,
			refs: []string{"heads/feature/x", "remotes/origin/feature/x"}},
		{name: "a tag", ref: func(*world) string { return "v1.0.0" }, shallow: true, refs: []string{"tags/v1.0.0"}},
		{name: "another ref", ref: func(w *world) string {
			w.remote("update-ref", "refs/pull/7/head", "main~1")
			return "refs/pull/7/head"
		}, shallow: true},
		{name: "a detached HEAD", ref: func(w *world) string {
			w.remote("update-ref", "--no-deref", "HEAD", "main~1")
			return "HEAD"
		}, shallow: true},
		{name: "a commit", ref: func(w *world) string { return w.remote("rev-parse", "main~2") }, shallow: true},
		{name: "an abbreviation", ref: func(w *world) string { return w.remote("rev-parse", "--short=12", "main") }},
		{name: "a commit that is not sent by its ID", ref: func(w *world) string { return w.remote("rev-parse", "main~2") },
			fault: func(*world) gitserver.Fault { return gitserver.ProtocolZero() }},
		{name: "plain files", ref: func(*world) string { return "main" }, fault: func(w *world) gitserver.Fault {
			dumb, err := w.Server.Dumb("r")
			if err != nil {
				w.T.Fatal(err)
			}
			return dumb
		}},
		{name: "no such branch", ref: func(*world) string { return "nothing" }, err: giterror.KindRefNotFound},
		{name: "no such commit", ref: func(*world) string { return strings.Repeat("1", 40) }, err: giterror.KindRefNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			if tt.fault != nil {
				w.Server.Route("r", tt.fault(w))
			}
			ref := tt.ref(w)
			s := w.spec("ref", ref, "cold", "shallow")
			c := w.clone(s)
			co, err := c.Prepare(t.Context(), s)
			if got := giterror.KindOf(err); got != tt.err {
				t.Fatalf("got %v, want %q", err, tt.err)
			}
			if err != nil {
				return
			}
			want := w.remote("rev-parse", ref+"^{commit}")
			dir := w.Mount(co.Lower, 0)
			if got := refsOf(t, dir, ""); co.Shallow && !slices.Equal(got, tt.refs) {
				t.Errorf("refs %q, want %q", got, tt.refs)
			}
			if head := run(t, dir, 0, "rev-parse", "HEAD"); co.Shallow != tt.shallow || co.Resolution.Commit != want || head != want {
				t.Errorf("shallow: %v, commit %s and HEAD %s, want %s", co.Shallow, co.Resolution.Commit, head, want)
			}
			c.Mounted(t.Context(), w.Options("ref", ref, "cold", "shallow"))
			w.deepened(c)
			if tt.shallow {
				run(t, dir, 0, "fetch", "-q", "--unshallow")
				if got, want := run(t, dir, 0, "rev-list", "--count", "HEAD"), w.remote("rev-list", "--count", want); got != want {
					t.Errorf("unshallowed: %s commits, want %s", got, want)
				}
			}
			co.Release()
			wait.For(t, "the end of the cold store", func() error { return wait.Equal(w.stores(c), []string{"full"}) })
		})
	}
}

// A fetch for a volume of another ref does not replace the git layer of the first, nor what
// a later Mount of the first sees.
func TestColdOtherRef(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	gate, shallow := w.holdFull()
	first := w.coldMount()
	<-gate.Arrived
	s := w.spec("ref", "feature/x", "cold", "shallow")
	other := w.prepare(s)
	w.remote("update-ref", "refs/heads/feature/x", "main~1")
	w.prepare(s).Release()
	again := w.coldMount()
	if again.GitLayer.ID != first.GitLayer.ID || shallow.Load() != 3 {
		t.Errorf("git layers %s and %s, %d fetches, want 3", first.GitLayer.ID, again.GitLayer.ID, shallow.Load())
	}
	again.Release()
	first.Release()
	w.collected(w.clone(s))
	again = w.coldMount()
	if again.GitLayer.ID != first.GitLayer.ID {
		t.Error("the git layer was collected although the next Mount needs it")
	}
	again.Release()
	dir := w.Mount(other.Lower, 0)
	if got, want := refsOf(t, dir, ""), []string{"heads/feature/x", "remotes/origin/feature/x"}; !slices.Equal(got, want) {
		t.Errorf("refs %q, want %q", got, want)
	}
	close(gate.Open)
	w.deepened(w.clone(s))
	run(t, dir, 0, "fetch", "-q", "--unshallow")
	got := refsOf(t, dir, "remotes/origin/")
	got = slices.DeleteFunc(got, func(name string) bool { return name == "HEAD" }) // newer gits add it
	if want := refsOf(t, w.Server.Path("r"), "heads/"); !slices.Equal(got, want) {
		t.Errorf("unshallowed: %q, want %q", got, want)
	}
	other.Release()
}
