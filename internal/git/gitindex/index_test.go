package gitindex

import (
	"encoding/binary"
	"testing"
)

func TestParseIndex(t *testing.T) {
	t.Parallel()
	header := func(version, n uint32) []byte {
		b := append([]byte("DIRC"), make([]byte, 8)...)
		binary.BigEndian.PutUint32(b[4:], version)
		binary.BigEndian.PutUint32(b[8:], n)
		return b
	}
	hash := make([]byte, 20)
	entry := make([]byte, 62+2)
	copy(entry[62:], "a")
	for _, tt := range []struct {
		name string
		data []byte
		want int // entries; -1 for an error
	}{
		{"nothing", nil, -1},
		{"other magic", append([]byte("CRID\x00\x00\x00\x02\x00\x00\x00\x00"), hash...), -1},
		{"version 4", append(header(4, 0), hash...), -1},
		{"empty", append(header(2, 0), hash...), 0},
		{"entry missing", append(header(2, 1), hash...), -1},
		{"name without end", append(append(header(2, 1), entry[:63]...), hash...), -1},
		{"one", append(append(header(2, 1), entry...), hash...), 1},
		{"extension that may be ignored", append(append(header(2, 0), "ABCD\x00\x00\x00\x01x"...), hash...), 0},
		{"extension that may not be ignored", append(append(header(2, 0), "link\x00\x00\x00\x01x"...), hash...), -1},
		{"extension cut short", append(append(header(2, 0), "ABCD\x00\x00\x00\x02x"...), hash...), -1},
		{"cache of trees", append(append(append(header(2, 0), "TREE\x00\x00\x00\x19\x000 0\n"...), hash...), hash...), 0},
		{"cache of trees that is not known", append(append(header(2, 0), "TREE\x00\x00\x00\x06\x00-1 0\n"...), hash...), 0},
		{"cache of trees cut short", append(append(append(header(2, 0), "TREE\x00\x00\x00\x18\x000 0\n"...), hash[1:]...), hash...), -1},
		{"cache of trees with less than it says", append(append(append(header(2, 0), "TREE\x00\x00\x00\x19\x000 1\n"...), hash...), hash...), -1},
		{"cache of trees with more than it says", append(append(append(header(2, 0), "TREE\x00\x00\x00\x1a\x000 0\n"...), append(hash, 0)...), hash...), -1},
	} {
		ix, err := Parse(tt.data, 20)
		if (err != nil) != (tt.want < 0) || err == nil && len(ix.Entries) != tt.want {
			t.Errorf("%s: %+v, %v; want %d entries", tt.name, ix, err, tt.want)
		}
	}
}

// TestAttributes checks which .gitattributes are found, and that one that is a symlink, which git
// follows in a work tree, is told apart.
func TestAttributes(t *testing.T) {
	t.Parallel()
	const id = " 1111111111111111111111111111111111111111 0"
	for _, tt := range []struct {
		name, mode string
		found, odd bool
	}{
		{".gitattributes", "100644", true, false},
		{"d/.gitattributes", "100755", true, false},
		{"d/.gitattributes", "120000", false, true},
		{"d/.gitattributes", "160000", false, false},
		{"d.gitattributes", "120000", false, false},
		{".gitattributes/x", "120000", false, false},
	} {
		ix := New(20)
		for _, e := range [][2]string{{"100644", "a"}, {tt.mode, tt.name}, {"120000", "z"}} {
			if err := ix.Add(e[0]+id, e[1]); err != nil {
				t.Fatal(err)
			}
		}
		entries, odd := ix.Attributes()
		if found := len(entries) == 1 && entries[0].Name() == tt.name; found != tt.found || len(entries) > 1 || odd != tt.odd {
			t.Errorf("%s of mode %s: found %d, odd %v", tt.name, tt.mode, len(entries), odd)
		}
	}
}
