package git

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver"
)

// packets writes lines as pkt-lines; "" is a flush.
func packets(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		if l == "" {
			b.WriteString("0000")
			continue
		}
		fmt.Fprintf(&b, "%04x%s\n", len(l)+5, l)
	}
	return b.String()
}

// talkTo feeds an answer to a talk, in pieces of so many bytes, and returns what it
// asked.
func talkTo(t *testing.T, answer string, piece int, names ...string) (*talk, string) {
	t.Helper()
	in, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	tk := newTalk(ours, names)
	for part := range slices.Chunk([]byte(answer), piece) {
		if _, err := tk.Write(part); err != nil {
			break
		}
	}
	tk.end()
	request, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	return tk, string(request)
}

func TestLsRefsRequest(t *testing.T) {
	able := "\n" + packets("version 2", "ls-refs", "object-format=sha256", "")
	for _, c := range []struct {
		answer, request string
		state           talkState
	}{
		{"", "", talkBegun},
		{"fall", "", talkBegun},
		{"\n", "", talkAble},
		{able[:len(able)-1], "", talkAble},
		{"fallback\n", "", talkFallback},
		{able, packets("command=ls-refs", "object-format=sha256") + "0001" + packets("peel", "symrefs", "ref-prefix HEAD", "ref-prefix refs/heads/x", ""), talkAsked},
	} {
		for _, piece := range []int{1, 5, 1 << 20} {
			tk, request := talkTo(t, c.answer, piece, "refs/heads/x")
			if request != c.request || tk.state != c.state {
				t.Errorf("%q: got %q, %v; want %q, %v", c.answer, request, tk.state, c.request, c.state)
			}
		}
	}
}

func TestParseLsRefs(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	able := "\n" + packets("version 2", "ls-refs", "")
	var many []string
	for i := range MaxListed + 1 {
		many = append(many, fmt.Sprintf("%s refs/many/%d", a, i))
	}
	for _, c := range []struct {
		out  string
		want RemoteRefs
		err  string
	}{
		{out: able + packets("") + "0002", want: RemoteRefs{Format: SHA1, IDs: map[string]string{}}},
		{
			out: able + packets(a+" HEAD symref-target:refs/heads/x", a+" refs/heads/x", b+" refs/heads/xy", a+" refs/tags/x peeled:"+b, ""),
			want: RemoteRefs{Head: "refs/heads/x", Format: SHA1, IDs: map[string]string{
				"HEAD": a, "refs/heads/x": a, "refs/tags/x": a, "refs/tags/x^{}": b,
			}},
		},
		{
			out:  able + packets(a+" refs/all/x/y peeled:"+b, b+" refs/all", b+" refs/allx", ""),
			want: RemoteRefs{Format: SHA1, IDs: map[string]string{"refs/all/x/y": a, "refs/all/x/y^{}": b}},
		},
		{out: able + packets(a+" HEAD symref-target:--upload-pack=x", ""), want: RemoteRefs{Format: SHA1, IDs: map[string]string{"HEAD": a}}},
		{out: able + packets(a+" HEAD"), err: "cut short"},
		{out: able + packets("x HEAD", ""), err: `listed a ref as "x HEAD"`},
		{out: able + packets("ERR access denied"), err: "remote error: access denied"},
		{out: able + "zzzz", err: `length "zzzz"`},
		{out: able + "0003", err: `length "0003"`},
		{out: "sorry", err: `answered "s`},
		{out: "", err: "cut short"},
	} {
		for _, piece := range []int{1, 7, 1 << 20} {
			tk, _ := talkTo(t, c.out, piece, "refs/heads/x", "refs/tags/x", "refs/all/")
			got, err := tk.answer()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%q: got %v, want %q", c.out, err, c.err)
				}
				continue
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: got %+v, %v; want %+v", c.out, got, err, c.want)
			}
		}
	}
	tk, _ := talkTo(t, able+packets(append(many, b+" refs/heads/x", "")...), 1000, "refs/heads/x", "refs/many/")
	if got, err := tk.answer(); err != nil || !got.More || len(got.IDs) != MaxListed+1 || got.IDs["refs/heads/x"] != b {
		t.Errorf("%d refs, more %v, %v; want %d and the one that has a name", len(got.IDs), got.More, err, MaxListed)
	}
}

// TestLsRefsOfMany asks for a ref that is the beginning of the names of 100,000
// others, with each protocol.
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
		if err != nil || !got.More || got.IDs["refs/heads/release"] != id || len(got.IDs) > MaxListed+2 {
			t.Errorf("%s, all: got %d, more %v, %v", c.name, len(got.IDs), got.More, err)
		}
	}
}

// TestLsRefsEndless asks a server that has no end of refs: the answer is an error,
// once.
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
	if KindOf(err) != KindServer || !strings.Contains(err.Error(), "more than 128 MiB") {
		t.Errorf("got %v, want an answer that is too long", err)
	}
	if n := s.Stats("r").LsRefs; n != 1 {
		t.Errorf("%d questions, want 1", n)
	}
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 16<<20 {
		t.Errorf("%d bytes more on the heap", kept)
	}
}
