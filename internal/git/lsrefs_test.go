package git

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
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

func TestLsRefsRequest(t *testing.T) {
	able := "\n" + packets("version 2", "ls-refs", "object-format=sha256", "")
	for _, c := range []struct {
		answer, request string
		done            bool
	}{
		{"", "", false},
		{"\n", "", false},
		{able[:len(able)-1], "", false},
		{"fallback\n", "", true},
		{able, packets("command=ls-refs", "object-format=sha256") + "0001" + packets("peel", "symrefs", "ref-prefix HEAD", "ref-prefix refs/heads/x", ""), true},
	} {
		request, done := lsRefsRequest([]byte(c.answer), []string{"refs/heads/x"})
		if string(request) != c.request || done != c.done {
			t.Errorf("%q: got %q, %v; want %q, %v", c.answer, request, done, c.request, c.done)
		}
	}
}

func TestParseLsRefs(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	able := "\n" + packets("version 2", "ls-refs", "")
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
		{out: able + packets(a+" HEAD symref-target:--upload-pack=x", ""), want: RemoteRefs{Format: SHA1, IDs: map[string]string{"HEAD": a}}},
		{out: able + packets(a+" HEAD"), err: "cut short"},
		{out: able + packets("x HEAD", ""), err: `named a ref by "x HEAD"`},
		{out: able + packets("ERR access denied"), err: "remote error: access denied"},
		{out: able + "zzzz", err: `length "zzzz"`},
		{out: able + "0003", err: `length "0003"`},
		{out: "", err: "cut short"},
	} {
		got, err := parseLsRefs([]byte(c.out), []string{"refs/heads/x", "refs/tags/x"})
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
