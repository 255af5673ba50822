package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/outbound/changes"
	"github.com/helmdeck/repos/internal/outbound/look"
)

// pieces is a writer that keeps all, and the size of the largest piece.
type pieces struct {
	strings.Builder
	largest int
}

func (p *pieces) Write(data []byte) (int, error) {
	p.largest = max(p.largest, len(data))
	return p.Builder.Write(data)
}

// TestLongPaths: an answer with many paths, which JSON has to escape, is written in small pieces, and bounded in
// bytes, so that the command can read it.
func TestLongPaths(t *testing.T) {
	t.Parallel()
	of := func(n, length int) *look.Status {
		return &look.Status{Set: &changes.Set{Added: int64(n), All: func(yield func(changes.Change, error) bool) {
			for i := range n {
				if !yield(changes.Change{Path: fmt.Sprintf("%06d", i) + strings.Repeat("\xff", length-6), Kind: changes.Added}, nil) {
					return
				}
			}
		}}}
	}
	for _, tt := range []struct{ n, length, listed int }{
		{0, 100, 0}, {1, 100, 1}, {maxChanges, 100, maxChanges}, {maxChanges + 1, 100, maxChanges},
		{512, 4096, 512}, {513, 4096, 512}, {maxChanges + 1, 1024, maxPathBytes / 1024},
	} {
		var out pieces
		if err := writeStatus(&out, of(tt.n, tt.length), comparison{}); err != nil {
			t.Fatal(err)
		}
		var got api.WorkspaceStatus
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
			t.Fatal(err)
		}
		truncated := ""
		if tt.listed < tt.n {
			truncated = fmt.Sprintf("only the first %d paths are listed", tt.listed)
		}
		if len(got.Changes) != tt.listed || got.Truncated != truncated || out.largest > 64<<10 || out.Len() > 10*maxPathBytes {
			t.Errorf("of %d paths there are %d in %d bytes in pieces of up to %d, %q", tt.n, len(got.Changes), out.Len(), out.largest, got.Truncated)
		}
	}
}
