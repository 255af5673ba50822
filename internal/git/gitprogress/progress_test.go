package gitprogress

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		line string
		want Progress
		text string
	}{
		{"Receiving objects:  43% (430/1000), 1.20 MiB | 3.00 MiB/s",
			Progress{"Receiving objects", 43, 430, 1000, "1.20 MiB", "3.00 MiB/s"}, "receiving objects 43% (1.20 MiB, 3.00 MiB/s)"},
		{"Receiving objects: 100% (5/5), 614 bytes | 614.00 KiB/s, done.",
			Progress{"Receiving objects", 100, 5, 5, "614 bytes", "614.00 KiB/s"}, "receiving objects 100% (614 bytes, 614.00 KiB/s)"},
		{"Receiving objects:   1% (1/100), 2.80 GiB",
			Progress{"Receiving objects", 1, 1, 100, "2.80 GiB", ""}, "receiving objects 1% (2.80 GiB)"},
		{"Resolving deltas:  50% (1/2)", Progress{"Resolving deltas", 50, 1, 2, "", ""}, "resolving deltas 50%"},
		{"remote: Counting objects: 12, done.", Progress{"Counting objects", -1, 0, 0, "", ""}, "counting objects"},
		{"remote: Enumerating objects: 3", Progress{"Enumerating objects", -1, 0, 0, "", ""}, "enumerating objects"},
		{"fatal: early EOF", Progress{}, ""},
		{"From http://h/x", Progress{}, ""},
		{" * [new branch] main -> main", Progress{}, ""},
		{"", Progress{}, ""},
	} {
		got, ok := Parse(tt.line)
		if got != tt.want || ok != (tt.text != "") || ok && got.String() != tt.text {
			t.Errorf("Parse(%q) = %+v %q, %v; want %+v %q", tt.line, got, got, ok, tt.want, tt.text)
		}
	}
	if got := (Progress{}).String(); got != "starting" {
		t.Errorf("the zero Progress: %q, want starting", got)
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	for amount, want := range map[string]int64{
		"": 0, "614 bytes": 614, "1.50 KiB": 1536, "2.25 MiB": 9 << 18, "1.00 GiB": 1 << 30, "1.00 TiB": 1 << 40, "9999999999999.00 TiB": 0, "1.2.3 MiB": 0,
	} {
		if got := (Progress{Amount: amount}).Bytes(); got != want {
			t.Errorf("%q: %d bytes, want %d", amount, got, want)
		}
	}
}
