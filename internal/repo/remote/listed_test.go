package remote

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// push adds a commit to main and returns its ID.
func (h *holder) push(content string) string {
	h.t.Helper()
	id, err := gitserver.Commit(h.server.Path("r"), "main", gitserver.Change{Path: "new", Content: content})
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// git runs git on the server's repository.
func (h *holder) git(args ...string) string {
	h.t.Helper()
	return testgit.Git(h.t, "", append([]string{"--git-dir=" + h.server.Path("r")}, args...)...)
}

// stored returns the branches and tags of the store.
func (h *holder) stored(s Source) map[string]string {
	h.t.Helper()
	refs, err := h.r.config.Git.Refs(h.r.StoreDir(s.History.Name()))
	if err != nil {
		h.t.Fatal(err)
	}
	stored := make(map[string]string)
	for _, r := range refs {
		if isBranchOrTag(r.Name) {
			stored[r.Name] = r.ID
		}
	}
	return stored
}

// ask fails the test on an error.
func (h *holder) ask(s Source) Answer {
	h.t.Helper()
	if err := h.r.Ask(h.t.Context(), s); err != nil {
		h.t.Fatal(err)
	}
	a, _ := h.r.kept.get(s.key())
	return a.answer
}

// outdated fetches main after a push since the answer, and returns the answer and the commit
// of main.
func (h *holder) outdated(s Source) (old Answer, commit string) {
	h.t.Helper()
	h.resolve(s)
	h.push("1")
	old = h.ask(s)
	commit = h.push("2")
	h.resolve(s)
	return old, commit
}

// TestFetchOfListedRefs checks that a fetch after any change at the remote brings what the
// answer lists, with one more request, unless only git can do it.
func TestFetchOfListedRefs(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	h.resolve(s)
	for _, step := range []struct {
		name string
		do   func()
		want gitserver.Stats
	}{
		{"a commit", func() { h.push("1") }, gitserver.Stats{LsRefs: 1, Fetches: 1}},
		{"a branch and tags besides", func() {
			h.git("branch", "feature", h.push("2")+"~1")
			h.git("tag", "light", "feature")
			h.git("tag", "-a", "-m", "x", "heavy", "main")
		}, gitserver.Stats{LsRefs: 1, Fetches: 1}},
		{"a deleted branch, a directory in its place, and a moved tag", func() {
			h.git("branch", "-D", "feature")
			h.git("branch", "feature/x", h.push("3"))
			h.git("tag", "-f", "light", "main")
		}, gitserver.Stats{LsRefs: 1, Fetches: 1}},
		{"a force push to a commit that is there", func() { h.git("update-ref", "refs/heads/main", "main~2") }, gitserver.Stats{LsRefs: 1, Fetches: 1}},
		{"another history", func() {
			h.git("update-ref", "refs/heads/main", h.git("commit-tree", "-m", "x", "main^{tree}"))
		}, gitserver.Stats{Infos: 1, LsRefs: 2, Fetches: 3}},
		{"many branches", func() {
			for i := range 300 {
				h.git("update-ref", fmt.Sprintf("refs/heads/many/%d", i), h.git("rev-parse", "main"))
			}
			h.push("4")
		}, gitserver.Stats{Infos: 1, LsRefs: 2, Fetches: 1}},
	} {
		step.do()
		h.server.Reset()
		r := h.resolve(s)
		if want := h.git("rev-parse", "refs/heads/main"); r.Commit != want {
			t.Errorf("%s: resolved to %s, want %s", step.name, r.Commit, want)
		}
		got := h.server.Stats("r")
		got.BytesOut = 0
		if got != step.want {
			t.Errorf("%s: the server saw %+v, want %+v", step.name, got, step.want)
		}
		for name, id := range h.stored(s) {
			if want := h.git("rev-parse", name); id != want {
				t.Errorf("%s: %s is at %s, want %s", step.name, name, id, want)
			}
		}
		testgit.Git(t, "", "--git-dir="+h.r.StoreDir("full"), "fsck", "--connectivity-only")
	}
}

// TestOldAnswerMovesNothingBack resolves with an answer from before the last fetch.
func TestOldAnswerMovesNothingBack(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	old, want := h.outdated(s)
	again := func() {
		t.Helper()
		r, err := h.reuse(s, old)
		if err != nil || r.Commit != want || h.stored(s)["refs/heads/main"] != want {
			t.Errorf("resolved to %s, %v; the store has %s; want %s", r.Commit, err, h.stored(s)["refs/heads/main"], want)
		}
	}
	again()
	// A push that was taken back, and a newer question that found nothing new.
	h.push("3")
	old = h.ask(s)
	h.git("update-ref", "refs/heads/main", want)
	h.resolve(s)
	again()
}

// TestFetchIsAsOldAsItsAnswer checks the time of a resolution that was fetched by an answer.
func TestFetchIsAsOldAsItsAnswer(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	h.resolve(s)
	h.push("1")
	a := h.ask(s)
	r, err := h.reuse(s, a)
	if recorded, _ := h.r.Resolution(s); err != nil || !r.At.Equal(a.res.At) || !recorded.At.Equal(a.res.At) {
		t.Errorf("resolved at %v, recorded at %v, %v; the answer is of %v", r.At, recorded.At, err, a.res.At)
	}
}

// TestEqualAnswersAgree aligns the store with the answers to two questions that list the same.
func TestEqualAnswersAgree(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	h.git("branch", "other", "main")
	sources := []Source{h.source("main"), h.source("other")}
	for _, s := range sources {
		h.resolve(s)
	}
	h.git("branch", "-f", "third", "main")
	var answers []Answer
	for _, s := range sources {
		answers = append(answers, h.ask(s))
	}
	for i, s := range sources {
		if _, err := h.r.reconcile(t.Context(), s, answers[i], false); err != nil {
			t.Errorf("answer %d: %v", i, err)
		}
	}
}

// TestOldAnswerAfterDamage resolves with an answer from before the last fetch into a store
// that was set aside since.
func TestOldAnswerAfterDamage(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	old, want := h.outdated(s)
	if _, err := h.r.setAside("full", "damaged-store"); err != nil {
		t.Fatal(err)
	}
	if r, err := h.reuse(s, old); err != nil || r.Commit != want {
		t.Errorf("resolved to %s, %v; want %s", r.Commit, err, want)
	}
}

// TestAnswerFromBeforeTheEndOfAFetch asks while git fetches another ref, which brings a
// newer commit than the answer has.
func TestAnswerFromBeforeTheEndOfAFetch(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	pull, s := h.source("refs/pull/7/head"), h.source("main")
	h.resolve(s)
	h.git("update-ref", "refs/pull/7/head", "main~1")
	answer := h.ask(pull)
	h.push("1")
	gate := gitserver.NewGate()
	h.server.Route("r", func(next http.Handler) http.Handler {
		gated := gate.Fault(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.UserAgent(), "helmdeck") {
				next.ServeHTTP(w, r)
			} else { // git itself
				gated.ServeHTTP(w, r)
			}
		})
	})
	fetched := make(chan error)
	go func() {
		_, err := h.reuse(pull, answer)
		fetched <- err
	}()
	<-gate.Arrived // and git has not asked
	old := h.ask(s)
	want := h.push("2")
	close(gate.Open)
	if err := <-fetched; err != nil {
		t.Fatal(err)
	}
	r, err := h.reuse(s, old)
	if err != nil || r.Commit != want || h.stored(s)["refs/heads/main"] != want {
		t.Errorf("resolved to %s, %v; the store has %s; want %s", r.Commit, err, h.stored(s)["refs/heads/main"], want)
	}
}
