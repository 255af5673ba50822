package lfs

import (
	"fmt"
	"strings"
	"testing"
)

// FuzzParsePointer checks that the ID in a pointer can be a file's name in a storage, and
// that the pointer is the same after it was written as by git-lfs.
func FuzzParsePointer(f *testing.F) {
	spell := func(p Pointer) string {
		return fmt.Sprintf("version %s\noid sha256:%s\nsize %d\n", pointerVersions[0], p.OID, p.Size)
	}
	text := spell(Pointer{OID: strings.Repeat("0123456789abcdef", 4), Size: 12})
	f.Add([]byte(text))
	f.Add([]byte("\ufeff\n" + strings.ReplaceAll(text, "\n", "\r\n\r\n")))
	f.Add([]byte(strings.Replace(text, "oid", "ext-0-x sha256:0\noid", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, ok := Parse(data)
		if !ok {
			return
		}
		if len(p.OID) != 64 || strings.Trim(p.OID, "0123456789abcdef") != "" || p.Size < 0 || p.Path != "" {
			t.Errorf("%q is read as %+v", data, p)
		}
		if again, ok := Parse([]byte(spell(p))); !ok || again != p {
			t.Errorf("%q is read as %+v, and that as %+v, %v", data, p, again, ok)
		}
	})
}
