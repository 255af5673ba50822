package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestDialog checks that lsRefs sends one request, after the transport helper has sent the
// server's capabilities.
func TestDialog(t *testing.T) {
	able := "\n" + "000eversion 2\n" + "0019object-format=sha256\n" + "0000"
	for _, c := range []struct {
		answer string
		asked  bool
		want   string // of the error
	}{
		{"", false, "unexpected EOF"},
		{"fall", false, "unexpected EOF"},
		{"sorry", false, `answered "s`},
		{"fallback\n", false, errFallback.Error()},
		{"\n", false, "cut short"},
		{able[:len(able)-1], false, "cut short"},
		{"\n000fERR no such", false, "remote error: no such"},
		{able, true, "cut short"},
		{able + "0000" + "0002", true, ""},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.answer), iotest.OneByteReader(strings.NewReader(c.answer))} {
			in, ours, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			want := stateless
			if c.asked {
				want += string(gitref.Request(gitref.Capabilities{Format: gitref.SHA256}, []string{"refs/heads/x"}))
			}
			_, err = lsRefs(ours, r, []string{"refs/heads/x"}, gitref.MaxAnswer)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%q: got %v, want %q", c.answer, err, c.want)
			}
			if got := errors.Is(err, io.ErrUnexpectedEOF); got != (strings.Contains(c.want, "EOF") || c.want == "cut short") {
				t.Errorf("%q: error %v is io.ErrUnexpectedEOF: %v", c.answer, err, got)
			}
			if request, err := io.ReadAll(in); err != nil || string(request) != want {
				t.Errorf("%q: asked %q, %v; want %q", c.answer, request, err, want)
			}
		}
	}
}

func TestLsRefs(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	rev := func(name string) string { return gitAt(t, s.Path("r"), "for-each-ref", "--format=%(objectname)", name) }
	before := gitAt(t, s.Path("r"), "rev-parse", "refs/heads/main~1")
	gitAt(t, s.Path("r"), "update-ref", "refs/pull/7/head", before)
	// This ref only ends with the wanted name.
	gitAt(t, s.Path("r"), "update-ref", "refs/heads/refs/heads/main", before)
	gitAt(t, s.Path("r"), "tag", "-a", "-m", "outer", "nested", "v1.0.0")
	s.Reset()
	got, err := g.LsRefs(t.Context(), Remote{URL: s.URL("r")}, "refs/heads/main", "refs/tags/main", "refs/tags/nested", "refs/pull/7/head")
	if err != nil {
		t.Fatal(err)
	}
	want := gitref.Answer{Head: "refs/heads/main", Format: gitref.SHA1, IDs: map[string]string{
		"HEAD": rev("refs/heads/main"), "refs/heads/main": rev("refs/heads/main"), "refs/tags/nested": rev("refs/tags/nested"),
		"refs/tags/nested^{}": gitAt(t, s.Path("r"), "rev-parse", "v1.0.0^{}"), "refs/pull/7/head": before,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("LsRefs\n got %v\nwant %v", got, want)
	}
	if st := s.Stats("r"); st.LsRefs != 1 || st.Fetches != 0 {
		t.Errorf("the server got %+v, want one question", st)
	}
	gitAt(t, s.Path("r"), "update-ref", "--no-deref", "HEAD", before)
	if got, err := g.LsRefs(t.Context(), Remote{URL: s.URL("r")}); err != nil || got.Head != "" || got.IDs["HEAD"] != before {
		t.Errorf("detached HEAD: %v, %v", got, err)
	}
	testgit.Generate(t, s, "other", gitserver.Spec{Seed: 1, Files: 1})
	gitAt(t, s.Path("other"), "symbolic-ref", "HEAD", "refs/heads/unborn")
	if got, err := g.LsRefs(t.Context(), Remote{URL: s.URL("other")}); err != nil || got.IDs["HEAD"] != "" {
		t.Errorf("unborn HEAD: %v, %v", got, err)
	}
}

// TestLsRefsOfMany asks for a ref whose name is a prefix of 100,000 others, with each protocol.
func TestLsRefsOfMany(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	id := gitAt(t, s.Path("r"), "rev-parse", "refs/heads/main")
	var packed strings.Builder
	packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, name := range []string{"refs/heads/main", "refs/heads/release"} {
		fmt.Fprintf(&packed, "%s %s\n", id, name)
	}
	for i := range 100_000 {
		fmt.Fprintf(&packed, "%s refs/heads/release-%06d-of-a-project-with-long-names\n", id, i)
	}
	if err := os.WriteFile(filepath.Join(s.Path("r"), "packed-refs"), []byte(packed.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		fault gitserver.Fault
	}{{"protocol 2", nil}, {"protocol 0", gitserver.ProtocolZero()}} {
		s.Wrap(c.fault)
		got, err := g.LsRefs(t.Context(), Remote{URL: s.URL("r")}, "refs/heads/release", "refs/tags/release")
		if err != nil || got.IDs["refs/heads/release"] != id || len(got.IDs) != 2 {
			t.Errorf("%s: got %v, %v", c.name, got, err)
		}
		got, err = g.LsRefs(t.Context(), Remote{URL: s.URL("r")}, "refs/heads/release", "refs/heads/", "refs/tags/")
		if err != nil || !slices.Equal(got.Cut, []string{"refs/heads/"}) || got.Sums["refs/heads/"].Count != 100_003 || got.IDs["refs/heads/release"] != id || len(got.IDs) > gitref.MaxListed+4 {
			t.Errorf("%s, all: got %d, cut %q, %v, %v", c.name, len(got.IDs), got.Cut, got.Sums, err)
		}
	}
}

// TestLsRefsEndless checks that an endless list of refs is an error, that the question is not
// repeated, and that the list is not kept in memory.
func TestLsRefsEndless(t *testing.T) {
	g, s := newGit(t), remote(t)
	id := gitAt(t, s.Path("r"), "rev-parse", "refs/heads/main")
	long := "refs/heads/main/" + strings.Repeat("x", 60_000)
	s.Wrap(gitserver.Advertise(func(yield func(gitserver.Ref) bool) {
		for yield(gitserver.Ref{ID: id, Name: long}) {
		}
	}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := g.LsRefs(t.Context(), Remote{URL: s.URL("r")}, "refs/heads/main", "refs/heads/")
	runtime.ReadMemStats(&after)
	if giterror.KindOf(err) != giterror.KindLimit || !strings.Contains(err.Error(), "more than 128 MiB (setting SIZE_FACTOR)") {
		t.Errorf("got %v, want an error about the size", err)
	}
	if n := s.Stats("r").LsRefs; n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); !testing.Short() && kept > 16<<20 {
		t.Errorf("the heap has grown by %d bytes, want 16 MiB at most", kept)
	}
}

// TestLsRefsSilentAfterWrong: a remote that says nothing more after a wrong answer does not delay the error.
func TestLsRefsSilentAfterWrong(t *testing.T) {
	g, s := newGit(t), remote(t)
	s.Wrap(gitserver.On(gitserver.LsRefs, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			io.WriteString(w, "0009what\n")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	}))
	ctx, cancel := context.WithTimeout(t.Context(), wait.Most(t)) // the remote is silent until its end
	defer cancel()
	_, err := g.LsRefs(ctx, Remote{URL: s.URL("r")}, "refs/heads/main")
	if giterror.KindOf(err) != giterror.KindServer || !strings.Contains(err.Error(), `"what"`) || ctx.Err() != nil {
		t.Errorf("got %v, %v", err, ctx.Err())
	}
}

// TestRefusedCredential: a credential that the server refuses is sent once.
func TestRefusedCredential(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	login := gitserver.Login{User: "me", Password: "old"}
	r := Remote{URL: s.URL("r"), Auth: func(context.Context, string) (*Auth, error) {
		return &Auth{Name: "mine", User: login.User, Password: login.Password}, nil
	}}
	s.Protect("r", gitserver.Login{User: "me", Password: "new"})
	for _, fault := range []gitserver.Fault{nil, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		})
	}} {
		s.Wrap(fault)
		s.Reset()
		_, err := g.LsRefs(t.Context(), r, "refs/heads/main")
		if giterror.KindOf(err) != giterror.KindAuth || !strings.Contains(err.Error(), `"mine"`) || strings.Contains(err.Error(), login.Password) {
			t.Errorf("got %v", err)
		}
		if got := s.Logins("r"); got[login] != 1 || got[gitserver.Login{}] != 1 {
			t.Errorf("requests by their login: %v, want one each without and with it", got)
		}
	}
}

// TestLsRefsGivenUp: a caller that gives up in the middle of an answer gets its own reason.
func TestLsRefsGivenUp(t *testing.T) {
	g, s := newGit(t), remote(t)
	gaveUp := errors.New("gave up")
	for _, size := range []int{1, 6, 50, 110} {
		ctx, cancel := context.WithCancelCause(t.Context())
		s.Wrap(gitserver.StallAfter(size, nil))
		timer := time.AfterFunc(200*time.Millisecond, func() { cancel(gaveUp) })
		if got, err := g.LsRefs(ctx, Remote{URL: s.URL("r")}, "refs/heads/main"); !errors.Is(err, gaveUp) {
			t.Errorf("after %d bytes: %+v, %v", size, got, err)
		}
		timer.Stop()
		cancel(nil)
	}
}
