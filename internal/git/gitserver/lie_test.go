package gitserver

import (
	"io"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAdvertise(t *testing.T) {
	s, head := sample(t)
	ls := func(fault Fault) string {
		t.Helper()
		s.Route("app", fault)
		return must(t, t.TempDir(), "ls-remote", "--symref", s.URL("app"))
	}
	got := ls(Advertise(slices.Values([]Ref{
		{ID: head, Name: "HEAD", Target: "refs/heads/--upload-pack=x"},
		{ID: head, Name: "refs/heads/../../x"},
		{ID: head, Name: "refs/tags/v1", Peeled: head},
	})))
	want := "ref: refs/heads/--upload-pack=x\tHEAD\n" + head + "\tHEAD\n" + head + "\trefs/heads/../../x\n" +
		head + "\trefs/tags/v1\n" + head + "\trefs/tags/v1^{}"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := strings.Count(ls(Advertise(ManyRefs(head, 100_000))), "\n"), 100_001; got != want {
		t.Errorf("got %d lines, want %d", got, want)
	}
	s.Route("app")
	must(t, t.TempDir(), "clone", s.URL("app"), ".")
}

// An endless answer stops when its client hangs up: otherwise Close would not return.
func TestAdvertiseForever(t *testing.T) {
	s, head := sample(t)
	s.Route("app", Advertise(ManyRefs(head, math.MaxInt)))
	answer, err := http.Post(s.URL("app")+"/git-upload-pack", "", strings.NewReader("0014command=ls-refs\n00010000"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, answer.Body, 10<<20); err != nil {
		t.Error(err)
	}
	answer.Body.Close()
	s.Close()
}

func TestBundle(t *testing.T) {
	s, _ := sample(t)
	s.Route("app", Bundle("http://127.0.0.1:1/a bundle\n"))
	must(t, t.TempDir(), "clone", s.URL("app"), ".")
	ask := func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequest(method, s.URL("app")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Git-Protocol", "version=2")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	if got, want := ask("GET", "/info/refs?service=git-upload-pack", ""), "000fbundle-uri\n0000"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
	got := ask("POST", "/git-upload-pack", "0017command=bundle-uri\n0000")
	if want := "bundle.first.uri=http://127.0.0.1:1/a bundle\n0000"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at its end", got, want)
	}
}

func TestProtocolZero(t *testing.T) {
	s, _ := sample(t)
	s.Route("app", ProtocolZero())
	must(t, t.TempDir(), "-c", "protocol.version=2", "clone", s.URL("app"), ".")
	if got, want := counts(s.Stats("app")), (Stats{Infos: 1, Fetches: 1, Clones: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestIgnoreFilter(t *testing.T) {
	s, _ := sample(t)
	if err := s.Configure("app", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		faults []Fault
		want   bool
	}{{"filters", nil, false}, {"ignores", []Fault{IgnoreFilter()}, true}} {
		s.Route("app", c.faults...)
		dir := t.TempDir()
		out := must(t, dir, "clone", "--bare", "--filter=blob:none", s.URL("app"), ".")
		objects := must(t, dir, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
		if got := strings.Contains(objects, "blob"); got != c.want {
			t.Errorf("%s: blobs arrived: %v, want %v\n%s", c.name, got, c.want, out)
		}
	}
}

func TestOnDepth(t *testing.T) {
	s, _ := sample(t)
	for _, deepen := range []bool{false, true} {
		s.Route("app", OnDepth(deepen, Fail(403)))
		for depth, args := range map[bool][]string{false: {"clone"}, true: {"clone", "--depth=1"}} {
			out, err := client(t, t.TempDir(), append(args, s.URL("app"), ".")...)
			if (err != nil) != (depth == deepen) {
				t.Errorf("a fault for fetches with a depth: %v; one with a depth: %v: %v: %s", deepen, depth, err, out)
			}
		}
	}
}

func TestDumbProtocol(t *testing.T) {
	s, head := sample(t)
	dumb, err := s.Dumb("app")
	if err != nil {
		t.Fatal(err)
	}
	s.Route("app", dumb)
	dir := t.TempDir()
	must(t, dir, "clone", s.URL("app"), ".")
	if got := must(t, dir, "rev-parse", "HEAD"); got != head {
		t.Errorf("got %s, want %s", got, head)
	}
	if got := s.Stats("app"); got.Fetches != 0 || got.LsRefs != 0 {
		t.Errorf("got %+v, want no request of a protocol", got)
	}
	if _, err := s.Dumb("nothing"); err == nil {
		t.Error("Dumb succeeded for a missing repository")
	}
}

func TestPacks(t *testing.T) {
	s, head := sample(t)
	s.Route("app", Incomplete(s.Path("app")))
	if out, err := client(t, t.TempDir(), "clone", s.URL("app"), "."); err == nil || !strings.Contains(out, "did not receive expected object") {
		t.Errorf("an incomplete pack: got %v %q, want an error", err, out)
	}
	s.Route("app", SendAll(s.Path("app")))
	dir := t.TempDir()
	must(t, dir, "clone", s.URL("app"), ".")
	must(t, dir, "fsck")
	if got := must(t, dir, "rev-parse", "HEAD"); got != head {
		t.Errorf("got %s, want %s", got, head)
	}
	// The fault ends the negotiation of a client that has objects.
	next, err := Commit(s.Path("app"), "main", Change{Path: "new", Content: "new\n"})
	if err != nil {
		t.Fatal(err)
	}
	must(t, dir, "fetch")
	if got := must(t, dir, "rev-parse", "origin/main"); got != next {
		t.Errorf("after a fetch: got %s, want %s", got, next)
	}
	s.Route("app", SendAll(filepath.Join(t.TempDir(), "nothing.git")))
	if out, err := client(t, t.TempDir(), "clone", s.URL("app"), "."); err == nil || !strings.Contains(out, "500") {
		t.Errorf("without objects: got %v %q, want an error", err, out)
	}
}
