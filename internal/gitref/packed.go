package gitref

import (
	"bytes"
	"fmt"
	"strings"
)

// PackedRef is one ref of the file packed-refs.
type PackedRef struct {
	Name, ID string
	Peeled   string // for an annotated tag: the object that it finally points to
}

// ParsePackedRefs returns the refs of a file packed-refs.
func ParsePackedRefs(data []byte) ([]PackedRef, error) {
	var refs []PackedRef
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if peeled, ok := strings.CutPrefix(line, "^"); ok && len(refs) > 0 {
			refs[len(refs)-1].Peeled = peeled
			continue
		}
		id, name, ok := strings.Cut(line, " ")
		if !ok || !IsObjectID(id) {
			return nil, fmt.Errorf("packed-refs has the line %q", line)
		}
		refs = append(refs, PackedRef{Name: name, ID: id})
	}
	return refs, nil
}

// FormatPackedRefs returns the content of a file packed-refs with refs, which must be sorted
// by name.
func FormatPackedRefs(refs []PackedRef) []byte {
	var b bytes.Buffer
	b.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, r := range refs {
		fmt.Fprintf(&b, "%s %s\n", r.ID, r.Name)
		if r.Peeled != "" {
			fmt.Fprintf(&b, "^%s\n", r.Peeled)
		}
	}
	return b.Bytes()
}
