package gitref

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// packets returns lines as pkt-lines; "" stands for a flush packet.
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

// decode reads capabilities and refs from an answer.
func decode(r io.Reader, names ...string) (Answer, error) {
	d := NewDecoder(r, MaxAnswer)
	server, err := d.Capabilities()
	if err != nil {
		return Answer{}, err
	}
	return d.Refs(server.Format, names)
}

// pieces returns readers of text: one returns all of it at once, the others return parts.
func pieces(text string) []io.Reader {
	return []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text)), iotest.HalfReader(strings.NewReader(text))}
}

func TestRequest(t *testing.T) {
	for _, c := range []struct{ capabilities, request string }{
		{packets("version 2", "ls-refs", ""), packets("command=ls-refs") + "0001" + packets("peel", "symrefs", "ref-prefix HEAD", "")},
		{packets("version 2", "ls-refs=unborn", ""), packets("command=ls-refs") + "0001" + packets("peel", "symrefs", "unborn", "ref-prefix HEAD", "")},
		{packets("version 2", "ls-refs=other", ""), packets("command=ls-refs") + "0001" + packets("peel", "symrefs", "ref-prefix HEAD", "")},
		{packets("version 2", "ls-refs", "object-format=sha256", "") + "more", packets("command=ls-refs", "object-format=sha256") +
			"0001" + packets("peel", "symrefs", "ref-prefix HEAD", "ref-prefix refs/heads/x", "ref-prefix refs/tags/", "")},
	} {
		for _, r := range pieces(c.capabilities) {
			server, err := NewDecoder(r, MaxAnswer).Capabilities()
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			if server.Format != "" {
				names = []string{"refs/heads/x", "refs/tags/"}
			}
			if got := string(Request(server, names)); got != c.request {
				t.Errorf("%q: got %q, want %q", c.capabilities, got, c.request)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	long := strings.Repeat("c", 64)
	able := packets("version 2", "ls-refs", "")
	var many []string
	for i := range MaxListed + 1 {
		many = append(many, fmt.Sprintf("%s refs/many/%d", a, i))
	}
	all := func(refs ...string) map[string]Sum {
		var s Summer
		for i := 0; i < len(refs); i += 2 {
			s.Add(refs[i], refs[i+1])
		}
		return map[string]Sum{"refs/all/": s.Sum()}
	}
	for _, c := range []struct {
		out  string
		want Answer
		err  string
	}{
		{out: able + packets("") + "0002", want: Answer{Format: SHA1, IDs: map[string]string{}}},
		{
			out: able + packets(a+" HEAD symref-target:refs/heads/x", a+" refs/heads/x", b+" refs/heads/xy", a+" refs/tags/x peeled:"+b, ""),
			want: Answer{Head: "refs/heads/x", Format: SHA1, IDs: map[string]string{
				"HEAD": a, "refs/heads/x": a, "refs/tags/x": a, "refs/tags/x^{}": b,
			}},
		},
		{
			out:  able + packets(a+" refs/all/x/y peeled:"+b, b+" refs/all", b+" refs/allx", ""),
			want: Answer{Format: SHA1, IDs: map[string]string{"refs/all/x/y": a, "refs/all/x/y^{}": b}, Sums: all("refs/all/x/y", a)},
		},
		{
			out: able + packets(b+" refs/all/z", a+" refs/all/x..y", a+" refs/all/"+strings.Repeat("x", 2000), a+" refs/all/\xff", a+" refs/all/x", ""),
			want: Answer{
				Format: SHA1, IDs: map[string]string{"refs/all/z": b, "refs/all/x": a},
				Sums: all("refs/all/x", a, "refs/all/z", b), Cut: []string{"refs/all/"},
			},
		},
		{
			out:  packets("version 2", "object-format=sha256", "", long+" HEAD", ""),
			want: Answer{Format: SHA256, IDs: map[string]string{"HEAD": long}},
		},
		{out: able + packets("unborn HEAD symref-target:refs/heads/trunk", ""), want: Answer{Head: "refs/heads/trunk", Format: SHA1, IDs: map[string]string{}}},
		{out: able + packets("unborn HEAD", ""), want: Answer{Format: SHA1, IDs: map[string]string{}}},
		{out: able + packets("unborn HEAD symref-target:--x", ""), want: Answer{Format: SHA1, IDs: map[string]string{}}},
		{out: able + packets("unborn refs/heads/x symref-target:refs/heads/y peeled:"+a, ""), want: Answer{Format: SHA1, IDs: map[string]string{}}},
		{out: able + packets(a+" HEAD symref-target:--upload-pack=x", ""), want: Answer{Format: SHA1, IDs: map[string]string{"HEAD": a}}},
		{out: able + packets(a+" HEAD"), err: "cut short"},
		{out: able + packets("x HEAD", ""), err: `listed a ref as "x HEAD"`},
		{out: able + packets("ERR access denied"), err: "remote error: access denied"},
		{out: packets("ERR access denied"), err: "remote error: access denied"},
		{out: able + "0001", err: `listed a ref as ""`},
		{out: able + "zzzz", err: `length "zzzz"`},
		{out: able + "0003", err: `length "0003"`},
		{out: able[:len(able)-1], err: "cut short"},
		{out: "", err: "cut short"},
	} {
		for _, r := range pieces(c.out) {
			got, err := decode(r, "refs/heads/x", "refs/tags/x", "refs/all/")
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%q: got %v, want %q", c.out, err, c.err)
				}
				continue
			}
			if c.want.Sums == nil {
				c.want.Sums = all()
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: got %+v, %v; want %+v", c.out, got, err, c.want)
			}
		}
	}
	got, err := decode(strings.NewReader(able+packets(append(many, b+" refs/heads/x", b+" refs/tags/x", "")...)), "refs/heads/x", "refs/many/", "refs/tags/")
	if err != nil || !slices.Equal(got.Cut, []string{"refs/many/"}) || len(got.IDs) != MaxListed+2 || got.Sums["refs/many/"].Count != MaxListed+1 || got.IDs["refs/heads/x"] != b {
		t.Errorf("%d refs, cut %q, %v; want %d, refs/heads/x and refs/tags/x", len(got.IDs), got.Cut, err, MaxListed)
	}
}

func TestReadLsRemote(t *testing.T) {
	a, b := strings.Repeat("a", 40), strings.Repeat("b", 40)
	long := strings.Repeat("c", 64)
	for _, c := range []struct {
		out  string
		want Answer
		err  string
	}{
		{out: "", want: Answer{Format: SHA1, IDs: map[string]string{}}},
		{
			out: "ref: refs/heads/x\tHEAD\n" + a + "\tHEAD\nref: refs/heads/y\trefs/heads/x\n" + a + "\trefs/heads/x\n" +
				b + "\trefs/heads/y\n" + b + "\trefs/heads/y^{}\n" + a + "\trefs/tags/x\n" + b + "\trefs/tags/x^{}\n",
			want: Answer{Head: "refs/heads/x", Format: SHA1, IDs: map[string]string{
				"HEAD": a, "refs/heads/x": a, "refs/tags/x": a, "refs/tags/x^{}": b,
			}},
		},
		{out: long + "\tHEAD\n", want: Answer{Format: SHA256, IDs: map[string]string{"HEAD": long}}},
		{out: "ref: --upload-pack=x\tHEAD\n", want: Answer{Format: SHA1, IDs: map[string]string{}}},
		{out: a + "\tHEAD", err: "cut short"},
		{out: a + " HEAD\n", err: "ls-remote has the line"},
		{out: "x\tHEAD\n", err: `ls-remote has "x" instead of an object ID`},
		{out: a + "\t" + strings.Repeat("x", maxLine), err: "more than 65536 bytes"},
	} {
		for _, r := range pieces(c.out) {
			got, err := ReadLsRemote(r, []string{"refs/heads/x", "refs/tags/x"}, MaxAnswer)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%.99q: got %v, want %q", c.out, err, c.err)
				}
				continue
			}
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%.99q: got %+v, %v; want %+v", c.out, got, err, c.want)
			}
		}
	}
}

// endless is a reader that repeats a text without an end.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// TestAnswersAreBounded checks that an endless list, or endless data after a list, is an error.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	again := func(before, text string) io.Reader {
		return io.MultiReader(strings.NewReader(before), &endless{text: strings.Repeat(text, 1000)})
	}
	a := strings.Repeat("a", 40)
	for name, read := range map[string]func() (Answer, error){
		"refs":      func() (Answer, error) { return decode(again(packets(""), packets(a+" r"))) },
		"the rest":  func() (Answer, error) { return decode(again(packets("", ""), "x")) },
		"ls-remote": func() (Answer, error) { return ReadLsRemote(again("", a+"\tr\n"), nil, MaxAnswer) },
	} {
		if _, err := read(); err != error(LargeError(MaxAnswer)) {
			t.Errorf("%s: got %v, want an error about the size", name, err)
		}
	}
	for _, packet := range []string{packets("x"), "0004", "0001"} {
		if _, err := decode(again("", packet)); err == nil || !strings.Contains(err.Error(), "more than 1000 lines") {
			t.Errorf("%q without an end: %v", packet, err)
		}
		if _, err := decode(again(packets(""), packet)); err == nil || !strings.Contains(err.Error(), "listed a ref as") {
			t.Errorf("%q in the list of refs: %v", packet, err)
		}
	}
}

func TestIsObjectID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   string
		want bool
	}{
		{strings.Repeat("a1", 20), true}, {strings.Repeat("a1", 32), true},
		{strings.Repeat("A1", 20), false}, {strings.Repeat("g1", 20), false},
		{"", false}, {strings.Repeat("a", 39), false}, {strings.Repeat("a", 41), false},
	} {
		if got := IsObjectID(tt.in); got != tt.want {
			t.Errorf("IsObjectID(%q) = %v", tt.in, got)
		}
	}
}

func FuzzDecode(f *testing.F) {
	a := strings.Repeat("a", 40)
	f.Add([]byte(packets("version 2", "object-format=sha1", "", a+" HEAD symref-target:refs/heads/x", a+" refs/tags/x peeled:"+a, "")))
	f.Add([]byte(packets("ERR no")))
	f.Add([]byte("00010002000300040005\n"))
	f.Add([]byte("ref: refs/heads/x\tHEAD\n" + a + "\tHEAD\n" + a + "\trefs/tags/x\n" + a + "\trefs/tags/x^{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func(io.Reader) (Answer, error){
			func(r io.Reader) (Answer, error) { return decode(r, "refs/tags/x", "refs/heads/") },
			func(r io.Reader) (Answer, error) {
				return ReadLsRemote(r, []string{"refs/tags/x", "refs/heads/"}, MaxAnswer)
			},
		} {
			whole, err := read(strings.NewReader(string(data)))
			parts, partsErr := read(iotest.OneByteReader(strings.NewReader(string(data))))
			if !reflect.DeepEqual(whole, parts) || fmt.Sprint(err) != fmt.Sprint(partsErr) {
				t.Fatalf("at once %+v, %v; byte by byte %+v, %v", whole, err, parts, partsErr)
			}
			for name, id := range whole.IDs {
				name, _ = strings.CutSuffix(name, PeeledSuffix)
				if !IsObjectID(id) || name != "HEAD" && name != "refs/tags/x" && !strings.HasPrefix(name, "refs/heads/") {
					t.Fatalf("%q has the ID %q", name, id)
				}
			}
		}
	})
}
