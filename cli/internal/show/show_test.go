package show

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mattn/go-runewidth"

	"github.com/helmdeck/repos/api"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"plain, größer, 日本":       "plain, größer, 日本",
		"\x1b[2Jgone":             `\u001b[2Jgone`,
		"two\nlines\tand\rone":    `two\u000alines\u0009and\u000done`,
		"csi \u009b31m":           `csi \u009b31m`,
		"right to left \u202egnp": `right to left \u202egnp`,
		"del\x7f":                 `del\u007f`,
		"not utf8 \xff":           `not utf8 \xff`,
		"a tag \U000e0041":        `a tag \udb40\udc41`,
		"\ufffd":                  "\ufffd",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

type row struct {
	Row
	Name  string `header:"NAME"`
	Size  string `header:"SIZE"`
	Bytes int64  `header:"BYTES"`
}

var hostile = "evil\n\x1b]0;title\x07\u202e"

func TestList(t *testing.T) {
	rows := []row{{Name: "a", Size: "1KiB", Bytes: 1024}, {Name: hostile}}
	for _, c := range []struct {
		format Format
		want   string
	}{
		{Format{}, "NAME                                   SIZE\na                                      1KiB\nevil\\u000a\\u001b]0;title\\u0007\\u202e   \n"},
		{Format{Quiet: true}, "a\n" + hostile + "\n"},
		{Format{Template: "{{.Bytes}}"}, "1024\n0\n"},
		{Format{Template: `table {{.Bytes}}\t{{upper .Name}}`}, "BYTES     NAME\n1024      A\n0         EVIL\\U000A\\U001B]0;TITLE\\U0007\\U202E\n"},
		{Format{Template: "json"}, `{"Name":"a","Size":"1KiB","Bytes":1024}` + "\n" + `{"Name":"evil\n\u001b]0;title\u0007` + "\u202e" + `","Size":"","Bytes":0}` + "\n"},
	} {
		var b bytes.Buffer
		if err := List(&b, c.format, []string{"Name", "Size"}, rows); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != c.want {
			t.Errorf("%+v: got\n%q, want\n%q", c.format, got, c.want)
		}
	}
	if err := List(&bytes.Buffer{}, Format{Template: "{{.Nothing}}"}, nil, rows); err == nil {
		t.Error("a template with an unknown field is no error")
	}
	if rows[1].Name != hostile {
		t.Error("List changed the rows")
	}
}

// TestTerminal checks that JSON on a terminal is the same JSON, without control characters.
func TestTerminal(t *testing.T) {
	var b bytes.Buffer
	if err := List(Terminal(&b), Format{Template: "json"}, nil, []row{{Name: hostile + "\U000e0041"}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(strings.TrimSuffix(b.String(), "\n"), "\n\x1b\x07\u202e\U000e0041") {
		t.Errorf("got %q", b.String())
	}
	var got row
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Name != hostile+"\U000e0041" {
		t.Errorf("got %q and %v", got.Name, err)
	}
}

// TestLine checks that the line of a long operation fits into terminals of all widths.
func TestLine(t *testing.T) {
	p := api.Progress{Status: "receiving objects of 日本\n\x1b[2J" + strings.Repeat("x", 200), Current: 12 << 20, Total: 40 << 20, Unit: "bytes"}
	for width := range 300 {
		got := line(p, width)
		limit := width - 1
		if width == 0 {
			limit = 79
		}
		if n := runewidth.StringWidth(got); n > limit || strings.ContainsAny(got, "\n\x1b") || !utf8.ValidString(got) {
			t.Fatalf("width %d: got %q, %d columns", width, got, n)
		}
		if width >= 40 && !strings.Contains(got, "12.58MB/41.94MB") {
			t.Errorf("width %d: got %q without the counts", width, got)
		}
		if width == 40 && !strings.HasPrefix(got, "receiving objects") {
			t.Errorf("width %d: got %q without the status", width, got)
		}
	}
	if got := line(api.Progress{Status: "asking"}, 80); got != "asking" {
		t.Errorf("got %q", got)
	}
}
