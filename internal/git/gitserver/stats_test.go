package gitserver

import (
	"bytes"
	"compress/gzip"
	"testing"
)

func TestParse(t *testing.T) {
	zip := func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.Write([]byte(s))
		w.Close()
		return b.String()
	}
	const (
		fetch = "0011command=fetch00010032want 0123456789012345678901234567890123456789\n"
		have  = "0032have 0123456789012345678901234567890123456789\n"
		done  = "0009done\n"
	)
	cases := []struct {
		name, method, service, encoding, body string
		want                                  Stats
	}{
		{"handshake", "GET", uploadPack, "", "", Stats{Infos: 1}},
		{"handshake of a push", "GET", receivePack, "", "", Stats{}},
		{"a file", "GET", "", "", "", Stats{}},
		{"ls-refs", "POST", uploadPack, "", "0014command=ls-refs\n00010000", Stats{LsRefs: 1}},
		{"clone", "POST", uploadPack, "", fetch + done + "0000", Stats{Fetches: 1, Clones: 1}},
		{"round", "POST", uploadPack, "", fetch + have + "0000", Stats{Fetches: 1}},
		{"last round", "POST", uploadPack, "", fetch + have + done + "0000", Stats{Fetches: 1}},
		{"gzip", "POST", uploadPack, "gzip", zip(fetch + have + done + "0000"), Stats{Fetches: 1}},
		{"protocol 0", "POST", uploadPack, "", "0032want 0123456789012345678901234567890123456789\n0000" + done, Stats{Fetches: 1, Clones: 1}},
		{"push", "POST", receivePack, "", "00a0...", Stats{Pushes: 1}},
		{"probe of a push", "POST", receivePack, "", "0000", Stats{}},
		{"empty", "POST", uploadPack, "", "", Stats{}},
	}
	for _, c := range cases {
		got, err := parse(c.method, c.service, c.encoding, []byte(c.body))
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	cases := []struct{ name, encoding, body string }{
		{"no length", "", "zzzz"},
		{"half a length", "", "00"},
		{"cut short", "", "0014command="},
		{"not gzip", "gzip", "0000"},
	}
	for _, c := range cases {
		if got, err := parse("POST", uploadPack, c.encoding, []byte(c.body)); err == nil {
			t.Errorf("%s: got %+v, want an error", c.name, got)
		}
	}
}
