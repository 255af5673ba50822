package gitref

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/helmdeck/repos/internal/intake"
)

// in returns a packet of data of a kind.
func in(kind byte, data string) string { return fmt.Sprintf("%04x%c%s", len(data)+5, kind, data) }

func TestFetchRequest(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	want := packets("command=fetch", "object-format=sha256") + "0001" + packets("thin-pack", "ofs-delta", "no-progress", "want "+a, "have "+b, "")
	if got := string(Fetch{Format: SHA256, Wants: []string{a}, Haves: []string{b}}.Request()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = packets("command=fetch") + "0001" + packets("thin-pack", "ofs-delta", "no-progress", "want "+a, "want "+b, "done", "")
	if got := string(Fetch{Wants: []string{a, b}}.Request()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = packets("command=fetch") + "0001" + packets("thin-pack", "ofs-delta", "no-progress", "deepen 3", "want "+a, "done", "")
	if got := string(Fetch{Wants: []string{a}, Depth: 3}.Request()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadPack(t *testing.T) {
	ready := packets("acknowledgments", "ACK "+strings.Repeat("a", 40), "ready") + "0001"
	whole, cut := Fetch{}, Fetch{Depth: 1}
	more := Fetch{Haves: []string{strings.Repeat("b", 40)}}
	a, b, long := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("c", 64)
	for _, c := range []struct {
		f            Fetch
		answer, pack string
		shallow      string
		err          string // part of its message; empty for none
	}{
		{f: more, answer: ready + packets("packfile") + in(1, "PA") + in(2, "90%") + in(1, "") + in(1, "CK") + "0000" + "0002", pack: "PACK"},
		{f: more, answer: packets("acknowledgments", "NAK", ""), err: errNotReady.Error()},
		{f: more, answer: packets("packfile") + in(1, "PACK") + "0000", err: `the line "packfile"`},
		{f: whole, answer: packets("packfile") + in(1, "PACK") + "0000", pack: "PACK"},
		{f: more, answer: packets("shallow-info"), err: `the line "shallow-info"`},
		{f: whole, answer: packets("shallow-info"), err: `the line "shallow-info"`},
		{f: whole, answer: packets("shallow " + a), err: `the line "shallow a`},
		{f: cut, answer: packets("shallow-info", "shallow "+a, "shallow "+b) + "0001" + packets("packfile") + in(1, "PACK") + "0000", pack: "PACK", shallow: a + " " + b},
		{f: cut, answer: packets("packfile") + in(1, "PACK") + "0000", pack: "PACK"},
		{f: Fetch{Format: SHA256, Depth: 1}, answer: packets("shallow-info", "shallow "+long) + "0001" + packets("packfile") + "0000", shallow: long},
		{f: cut, answer: packets("shallow-info", "shallow "+long), err: `the line "shallow ccc`},
		{f: cut, answer: packets("shallow-info", "shallow HEAD"), err: `the line "shallow HEAD"`},
		{f: cut, answer: packets("shallow-info", "unshallow "+a), err: `the line "unshallow a`},
		{f: cut, answer: packets("shallow-info") + strings.Repeat(packets("shallow "+a), 5000), err: "more than 4096 lines"},
		{f: more, answer: packets("ERR not our ref"), err: "remote error: not our ref"},
		{f: more, answer: strings.Repeat(packets("NAK"), 5000), err: "more than 4096 lines"},
		{f: more, answer: "", err: "cut short"},
		{f: more, answer: "zzzz", err: `length "zzzz"`},
		{f: more, answer: ready + packets("packfile") + in(1, "PA"), pack: "PA", err: "cut short"},
		{f: more, answer: ready + packets("packfile") + in(1, "PA") + in(3, "out of memory\n"), pack: "PA", err: "remote error: out of memory"},
		{f: more, answer: ready + packets("packfile") + in(7, "PA"), err: "unknown kind 7"},
		{f: more, answer: ready + packets("packfile") + "0004", err: "empty packet"},
	} {
		for _, r := range append(pieces(c.answer), iotest.DataErrReader(strings.NewReader(c.answer))) {
			pack, shallow, err := readAll(c.f, r)
			if pack != c.pack || shallow != c.shallow || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.99q: got %q, %v; want %q, %s", c.answer, pack, err, c.pack, c.err)
			}
		}
	}
}

// readAll reads a pack.
func readAll(f Fetch, r io.Reader) (all, shallow string, err error) {
	pack, commits, err := f.ReadPack(r)
	if err != nil {
		return "", "", err
	}
	data, err := io.ReadAll(pack)
	return string(data), strings.Join(commits, " "), err
}

func FuzzReadPack(f *testing.F) {
	f.Add([]byte(packets("acknowledgments", "ready")+"0001"+packets("packfile")+in(1, "PACK")+in(2, "x")+"0000"), true, 0)
	f.Add([]byte(packets("packfile")+in(1, "PACK")+"0000"), false, 0)
	f.Add([]byte(packets("acknowledgments", "NAK", "")), true, 0)
	f.Add([]byte(packets("ERR no")), false, 0)
	f.Add([]byte(packets("shallow-info", "shallow "+strings.Repeat("a", 40))+"0001"+packets("packfile")+in(1, "PACK")+"0000"), false, 1)
	f.Fuzz(func(t *testing.T, data []byte, haves bool, depth int) {
		fetch := Fetch{Depth: depth}
		if haves {
			fetch.Haves = []string{"x"}
		}
		whole, shallow, err := readAll(fetch, strings.NewReader(string(data)))
		parts, partsShallow, partsErr := readAll(fetch, iotest.OneByteReader(strings.NewReader(string(data))))
		if whole != parts || shallow != partsShallow || fmt.Sprint(err) != fmt.Sprint(partsErr) {
			t.Fatalf("at once %q, %q, %v; byte by byte %q, %q, %v", whole, shallow, err, parts, partsShallow, partsErr)
		}
		if len(whole)+len(shallow) > len(data) {
			t.Fatalf("%d bytes of a pack and %d of commits in %d", len(whole), len(shallow), len(data))
		}
	})
}

// TestTalkIsBounded: packets that have nothing of a pack end, however many a server sends, and those of a pack that has
// few bytes in each do not.
func TestTalkIsBounded(t *testing.T) {
	t.Parallel()
	for name, packet := range map[string]string{"no data": in(1, ""), "messages": in(2, "working"), "keep-alives": in(1, "P") + strings.Repeat(in(1, ""), 1000)} {
		sent := &io.LimitedReader{R: &endless{text: packet}, N: 1 << 40}
		pack, _, err := Fetch{}.ReadPack(io.MultiReader(strings.NewReader(packets("packfile")), sent))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.Copy(io.Discard, pack); !errors.Is(err, intake.ErrExcess) || 1<<40-sent.N > 2*maxTalk {
			t.Errorf("%s: %v after %d bytes", name, err, 1<<40-sent.N)
		}
	}
	large := packets("packfile") + strings.Repeat(in(1, "PACKPACKPACK"), 4<<20) + "0000"
	pack, _, err := Fetch{}.ReadPack(strings.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, pack); n != 12*4<<20 || err != nil {
		t.Errorf("small packets: %d bytes, %v", n, err)
	}
}
