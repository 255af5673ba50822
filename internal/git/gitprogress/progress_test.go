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
