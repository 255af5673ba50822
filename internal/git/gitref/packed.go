package gitref

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// PackedRef is one ref of the file packed-refs.
type PackedRef struct {
	Name, ID string
	Peeled   string // for an annotated tag: the object that it finally points to
}

// ParsePackedRefs returns the refs of a file packed-refs. Their names and IDs are parts of its text.
func ParsePackedRefs(text string) ([]PackedRef, error) {
	refs := make([]PackedRef, 0, len(text)/64) // some more or less
	for line := range strings.Lines(text) {
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

// WritePackedRefs writes the content of a file packed-refs with refs, which must be sorted by name. It is not made in
// memory, because a remote may have a million refs.
func WritePackedRefs(to io.Writer, refs []PackedRef) error {
	w := bufio.NewWriterSize(to, 64<<10)
	w.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, r := range refs {
		w.WriteString(r.ID + " " + r.Name + "\n")
		if r.Peeled != "" {
			w.WriteString("^" + r.Peeled + "\n")
		}
	}
	return w.Flush()
}
