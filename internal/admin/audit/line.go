package audit

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/escape"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
)

const (
	// maxLine bounds a line. Texts without many escapes are shorter than that by far.
	maxLine = 64 << 10
	// maxText and maxLong bound the texts of a record in bytes.
	maxText = 512
	maxLong = 1 << 10
	// maxChanges bounds how many settings a record has, and maxValue their values.
	maxChanges = 64
	maxValue   = 256
)

// clip cuts off long texts, makes all of them valid UTF-8, and redacts names that look like
// URLs: a user may have pasted one with a password into the wrong field.
func clip(r *api.AuditRecord) {
	for _, text := range []*string{
		&r.Action, &r.Request, &r.VolumeID, &r.Pod, &r.Subject, &r.Ref, &r.Commit, &r.Clone, &r.Volume, &r.Lease, &r.Workspace, &r.Checkpoint,
		&r.Name, &r.Kind, &r.Scope, &r.Allow, &r.ID, &r.Reason, &r.Actor.Claim,
	} {
		*text = origin.Clip(volume.Redact(*text), maxText)
	}
	for _, text := range []*string{&r.Error, &r.Repo, &r.Text} {
		*text = origin.Clip(*text, maxLong)
	}
	changes := make(map[string]api.Change)
	for name, c := range r.Changes {
		if len(changes) == maxChanges {
			break
		}
		changes[origin.Clip(name, maxValue)] = api.Change{From: origin.Clip(c.From, maxValue), To: origin.Clip(c.To, maxValue)}
	}
	r.Changes = changes
	waits := make(map[string]time.Duration, len(r.Waits))
	for what, d := range r.Waits {
		waits[origin.Clip(what, maxValue)] = d
	}
	r.Waits = waits
}

// weigh returns about how many bytes the texts of a record take.
func weigh(r api.AuditRecord) int {
	n := len(r.Error) + len(r.Pod) + len(r.Text) + len(r.Repo) + len(r.Ref) + len(r.Subject) + len(r.Clone) + len(r.Volume) + len(r.Lease) +
		len(r.Name) + len(r.Scope) + len(r.Actor.Claim)
	for name, c := range r.Changes {
		n += len(name) + len(c.From) + len(c.To)
	}
	for what := range r.Waits {
		n += len(what)
	}
	return n
}

// appendLine appends a record as one line of at most maxLine bytes. A terminal that shows it
// interprets nothing in it: every character that is not printable is escaped.
func appendLine(to []byte, r api.AuditRecord) []byte {
	line := encode(to, r)
	if len(line)-len(to) > maxLine {
		r.Changes, r.Waits, r.Error, r.Repo = nil, nil, "", ""
		r.Text = "the record was too long: a part of it is left out"
		line = encode(to, r)
	}
	return line
}

// encode appends a value as one line of JSON, in which every character that is not printable is
// escaped.
func encode(to []byte, v any) []byte {
	var line bytes.Buffer
	e := json.NewEncoder(&line)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // records and strings can be encoded
	}
	return append(escape.AppendJSON(to, bytes.TrimSuffix(line.Bytes(), []byte("\n"))), '\n')
}

// head is what the package itself needs of a line.
type head struct {
	Seq    int64  `json:"seq"`
	Action string `json:"action"`
}

// parse reads a line. ok is false if it is not a record.
func parse(line []byte) (h head, ok bool) {
	err := json.Unmarshal(line, &h)
	return h, err == nil && h.Seq > 0 && h.Action != ""
}
