package gitindex

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// indexOf returns an index of files "mode name content size time", whose object IDs are hashes of the contents.
func indexOf(t *testing.T, files ...string) []byte {
	t.Helper()
	ix := New(20)
	for _, file := range files {
		f := strings.Fields(file)
		h := newHash(20)
		h.Write([]byte(f[2]))
		if err := ix.Add(f[0]+" "+hex.EncodeToString(h.Sum(nil))+" 0", f[1]); err != nil {
			t.Fatal(err)
		}
		e := ix.Entries[len(ix.Entries)-1]
		e.SetStat(&unix.Stat_t{Size: int64(len(f[3])), Mtim: unix.Timespec{Sec: int64(len(f[4]))}}) // as many as there are letters
	}
	var b bytes.Buffer
	if err := ix.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSince checks which files are the same as in an earlier index.
func TestSince(t *testing.T) {
	const file, x, link, sub = "100644", "100755", "120000", "160000"
	for _, tt := range []struct {
		name            string
		was, times, now []string
		same, modules   string // the names
	}{
		{"no index", nil, nil, []string{file + " a 1 s t"}, "", ""},
		{"equal", []string{file + " a 1 s t"}, nil, []string{file + " a 1 s t"}, "a", ""},
		{"another time", []string{file + " a 1 s t"}, nil, []string{file + " a 1 s tt"}, "a", ""},
		{"another content", []string{file + " a 1 s t", file + " b 1 s t"}, nil, []string{file + " a 2 s t", file + " b 1 s t"}, "b", ""},
		{"another mode", []string{file + " a 1 s t"}, nil, []string{x + " a 1 s t"}, "", ""},
		{"a link", []string{file + " a 1 s t"}, nil, []string{link + " a 1 s t"}, "", ""},
		{"a pointer of git-lfs", []string{file + " a 1 s t"}, nil, []string{file + " a 1 ss t"}, "", ""},
		{"added and gone", []string{file + " b 1 s t"}, nil, []string{file + " a 1 s t", file + " c 1 s t"}, "", ""},
		{"submodules", []string{sub + " a 1 s t", file + " b 1 s t"}, nil, []string{sub + " a 2 s t", sub + " b 1 s t", sub + " c 1 s t"}, "", "a"},
		{
			"attributes, and times that were kept",
			[]string{file + " a/.gitattributes 1 s t", file + " a/x 1 s t", file + " a/y 1 s t", file + " b 1 s t"}, nil,
			[]string{file + " a/.gitattributes 2 s t", file + " a/x 1 s tt", file + " a/y 1 s t", file + " b 1 s tt"},
			"a/y b", "",
		},
		{
			"attributes that are gone, and times that a layer had changed",
			[]string{file + " .gitattributes 1 s t", file + " x 1 s ttt", file + " y 1 s ttt"},
			[]string{file + " .gitattributes 1 s t", file + " x 1 s t", file + " y 1 s t"},
			[]string{file + " x 1 s t", file + " y 1 s tt"},
			"x", "",
		},
	} {
		ix, err := Parse(indexOf(t, tt.now...), 20)
		if err != nil {
			t.Fatal(err)
		}
		var was, times []byte
		if tt.was != nil {
			was = indexOf(t, tt.was...)
		}
		if tt.times != nil {
			times = indexOf(t, tt.times...)
		}
		var same, all []string
		modules, err := ix.Since(was, times, func(e, was Entry, isSame bool) {
			all = append(all, e.Name())
			if isSame {
				same = append(same, e.Name())
				if was.Name() != e.Name() {
					t.Errorf("%s: %q was %q", tt.name, e.Name(), was.Name())
				}
			}
		})
		if got := strings.Join(same, " "); err != nil || got != tt.same {
			t.Errorf("%s: %q are the same, %v, want %q", tt.name, got, err, tt.same)
		}
		if len(modules) > 1 || tt.modules != "" && !modules[tt.modules] || !slices.IsSorted(all) {
			t.Errorf("%s: submodules %v, files %q", tt.name, modules, all)
		}
	}
}
