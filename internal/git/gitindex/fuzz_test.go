package gitindex

import (
	"bytes"
	"encoding/hex"
	"runtime"
	"slices"
	"testing"
)

// FuzzParse checks that for any input, Parse needs memory in proportion to its size, that
// Encode and Parse are stable, and that no other method panics.
func FuzzParse(f *testing.F) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, cone := range []Cone{nil, {"a/b"}} {
			r := newRepository(f, format, cone)
			id := r.git("x\n", "hash-object", "-w", "--stdin")
			files := map[string]string{"a/b/c": "100644 " + id, "a/d": "100755 " + id, "e/f": "120000 " + id, "g": "160000 " + id, ".gitattributes": "100644 " + id}
			r.indexOf(files)
			f.Add(r.read(), format == "sha256") // without a cache of trees
			r.checkOut(r.git("", "write-tree"))
			f.Add(r.read(), format == "sha256")
			delete(files, "a/d")
			r.git("", "update-index", "--force-remove", "a/d") // its cache lacks a tree
			f.Add(r.read(), format == "sha256")
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, long bool) {
		idSize := 20
		if long {
			idSize = 32
		}
		data = slices.Clone(data) // Parse retains the data
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		ix, err := Parse(data, idSize)
		runtime.ReadMemStats(&after)
		if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(64<<10+20*len(data)); !testing.Short() && got > limit {
			t.Errorf("%d bytes took %d bytes of memory", len(data), got)
		}
		if err != nil {
			return
		}
		once := encode(t, ix)
		again, err := Parse(bytes.Clone(once), idSize)
		if err != nil {
			t.Fatalf("Parse fails for the output of Encode: %v", err)
		}
		if twice := encode(t, again); !bytes.Equal(once, twice) {
			t.Errorf("%q is written as\n%q and then as\n%q", data, once, twice)
		}
		if _, err := again.CopyStats(once); err != nil {
			t.Errorf("it does not match itself: %v", err)
		}
		again.LeaveOut(Cone{"a/b"})
		_, _ = again.Apply(new(Changes), New(idSize), hex.EncodeToString(make([]byte, idSize)))
		_ = encode(t, again)
	})
}
