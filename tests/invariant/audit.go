package invariant

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk/durable"
)

// audit checks that each line of the audit log is a whole record, except one that is being written
// now, and that the records are numbered without a gap that no record explains.
func (d *data) audit() {
	files, content := d.auditFiles(), []byte(nil)
	for again := true; again; { // a file may get another name meanwhile
		content = nil
		for _, name := range files {
			data, err := os.ReadFile(d.path("audit", name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				d.failf("audit log: %w", err)
				return
			}
			content = append(content, data...)
		}
		now := d.auditFiles()
		again, files = !slices.Equal(now, files), now
	}
	var last int64
	for line := range bytes.Lines(content) {
		var r api.AuditRecord
		err := json.Unmarshal(line, &r)
		switch {
		case !bytes.HasSuffix(line, []byte("\n")):
			return
		case err != nil:
			d.failf("audit log, after record %d: %w: %q", last, err, line)
			return
		case last > 0 && r.Seq != last+1+r.Lost:
			d.failf("audit log: record %d comes after %d", r.Seq, last)
		}
		last = r.Seq
	}
}

// auditFiles returns the names of the files of the audit log, the oldest first.
func (d *data) auditFiles() (names []string) {
	for _, name := range d.names("audit") {
		switch {
		case durable.IsTemp(name):
			d.failf("%s has a temporary name", d.path("audit", name))
		case name != "audit.jsonl" && name != "settings.json":
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return append(names, "audit.jsonl")
}
