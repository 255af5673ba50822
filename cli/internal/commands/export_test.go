package commands

import (
	"archive/tar"
	"net/http"
	"path/filepath"
	"testing"
)

// TestExportSays checks what is said of an archive that is empty, or that lacks something.
func TestExportSays(t *testing.T) {
	type entry struct{ name, text string }
	nothing := entry{deletedEntry, ""}
	for _, c := range []struct {
		name    string
		entries []entry
		args    []string
		want    string
	}{
		{"a file", []entry{nothing, {"a", "x"}}, nil, ""},
		{"a deletion", []entry{{deletedEntry, "a\x00"}}, nil, ""},
		{"nothing", []entry{nothing}, nil, "The archive is empty: nothing was changed, but maybe ignored files (--ignored).\n"},
		{"nothing at all", []entry{nothing}, []string{"--ignored"}, "The archive is empty: nothing was changed.\n"},
		{"a FIFO alone", []entry{nothing, {leftOutEntry, "\"fifo\": it is a FIFO\n"}}, nil,
			"Warning: the archive lacks something that was changed. Its last entry lists that: tar -xOf FILE .helmdeck-export/left-out\n"},
	} {
		p := looked()
		p["GET /v1/workspaces/{id}/changes.tar"] = func(w http.ResponseWriter, _ *http.Request) {
			archive := tar.NewWriter(w)
			for _, e := range c.entries {
				if err := archive.WriteHeader(&tar.Header{Name: e.name, Mode: 0o644, Size: int64(len(e.text))}); err != nil {
					t.Error(err)
				}
				if _, err := archive.Write([]byte(e.text)); err != nil {
					t.Error(err)
				}
			}
			if err := archive.Close(); err != nil {
				t.Error(err)
			}
		}
		got := p.run(t, "", append([]string{"export", "one", "-o", filepath.Join(t.TempDir(), "x.tar")}, c.args...)...)
		if got.failed != nil || got.err != c.want {
			t.Errorf("%s: got %q and %v, want %q", c.name, got.err, got.failed, c.want)
		}
	}
}
