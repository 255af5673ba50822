package gitref

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// in returns a packet of data of a kind.
func in(kind byte, data string) string { return fmt.Sprintf("%04x%c%s", len(data)+5, kind, data) }

func TestFetchRequest(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	want := packets("command=fetch", "object-format=sha256") + "0001" + packets("thin-pack", "ofs-delta", "no-progress", "want "+a, "have "+b, "")
	if got := string(FetchRequest(SHA256, []string{a}, []string{b})); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = packets("command=fetch") + "0001" + packets("thin-pack", "ofs-delta", "no-progress", "want "+a, "want "+b, "done", "")
	if got := string(FetchRequest("", []string{a, b}, nil)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestReadPack(t *testing.T) {
	ready := packets("acknowledgments", "ACK "+strings.Repeat("a", 40), "ready") + "0001"
	for _, c := range []struct {
		answer, pack string
		first        bool   // the request had no haves
		err          string // part of its message; empty for none
	}{
		{answer: ready + packets("packfile") + in(1, "PA") + in(2, "90%") + in(1, "") + in(1, "CK") + "0000" + "0002", pack: "PACK"},
		{answer: packets("acknowledgments", "NAK", ""), err: ErrNotReady.Error()},
		{answer: packets("packfile") + in(1, "PACK") + "0000", err: `the line "packfile"`},
		{first: true, answer: packets("packfile") + in(1, "PACK") + "0000", pack: "PACK"},
		{answer: packets("shallow-info"), err: `the line "shallow-info"`},
		{answer: packets("ERR not our ref"), err: "remote error: not our ref"},
		{answer: strings.Repeat(packets("NAK"), 5000), err: "more than 4096 lines"},
		{answer: "", err: "cut short"},
		{answer: "zzzz", err: `length "zzzz"`},
		{answer: ready + packets("packfile") + in(1, "PA"), pack: "PA", err: "cut short"},
		{answer: ready + packets("packfile") + in(1, "PA") + in(3, "out of memory\n"), pack: "PA", err: "remote error: out of memory"},
		{answer: ready + packets("packfile") + in(7, "PA"), err: "unknown kind 7"},
		{answer: ready + packets("packfile") + "0004", err: "empty packet"},
	} {
		for _, r := range append(pieces(c.answer), iotest.DataErrReader(strings.NewReader(c.answer))) {
			pack, err := readAll(r, !c.first)
			if pack != c.pack || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%.99q: got %q, %v; want %q, %s", c.answer, pack, err, c.pack, c.err)
			}
		}
	}
}

// readAll reads a pack.
func readAll(r io.Reader, haves bool) (string, error) {
	pack, err := ReadPack(r, haves)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(pack)
	return string(data), err
}

func FuzzReadPack(f *testing.F) {
	f.Add([]byte(packets("acknowledgments", "ready")+"0001"+packets("packfile")+in(1, "PACK")+in(2, "x")+"0000"), true)
	f.Add([]byte(packets("packfile")+in(1, "PACK")+"0000"), false)
	f.Add([]byte(packets("acknowledgments", "NAK", "")), true)
	f.Add([]byte(packets("ERR no")), false)
	f.Fuzz(func(t *testing.T, data []byte, haves bool) {
		whole, err := readAll(strings.NewReader(string(data)), haves)
		parts, partsErr := readAll(iotest.OneByteReader(strings.NewReader(string(data))), haves)
		if whole != parts || fmt.Sprint(err) != fmt.Sprint(partsErr) {
			t.Fatalf("at once %q, %v; byte by byte %q, %v", whole, err, parts, partsErr)
		}
		if len(whole) > len(data) {
			t.Fatalf("%d bytes of a pack in %d", len(whole), len(data))
		}
	})
}
