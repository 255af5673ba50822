package api

import (
	"context"
	"net/url"
	"time"
)

// AuditRecord is one line of the audit log: a change, or an attempt that failed. Fields
// that do not apply are left out. No field has a secret, and long texts are cut off.
type AuditRecord struct {
	// Seq is that of the record before plus one, and plus the number of records that were
	// lost. A gap without a record about it means that lines were removed.
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"time"`
	Action string    `json:"action"` // such as mount or credential.put
	Result string    `json:"result"` // ok or failed
	Error  string    `json:"error,omitempty"`
	Actor  Actor     `json:"actor"`
	// Request is the ID of the request that led to it, which the log has too.
	Request string `json:"request,omitempty"`
	// VolumeID is the ID of the request that created the volume. It is the same in all
	// records of a volume, and differs between two volumes of the same name.
	VolumeID string `json:"volume_id,omitempty"`
	// Pod is the pod for which kubelet asked, as namespace/name.
	Pod        string `json:"pod,omitempty"`
	Subject    string `json:"subject,omitempty"`
	Repo       string `json:"repo,omitempty"`
	Ref        string `json:"ref,omitempty"`
	Commit     string `json:"commit,omitempty"`
	Clone      string `json:"clone,omitempty"` // key
	Volume     string `json:"volume,omitempty"`
	Lease      string `json:"lease,omitempty"`
	Workspace  string `json:"workspace,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	// Name, Kind, Scope and Allow are those of a credential. Kind, ID and Reason are those of an
	// Eviction.
	Name   string `json:"name,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Scope  string `json:"scope,omitempty"`
	Allow  string `json:"allow,omitempty"` // as in the request; empty: AllowFetch
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"` // that were evicted
	Text   string `json:"text,omitempty"`  // more, for people
	// Took is how long a mount took, Phases how long its parts took that it has begun (resolve, fetch,
	// build, mount), and Waits what it has waited for, such as "a turn (cpu)". Waits are parts of
	// phases; those of work beside each other are all counted.
	Took   time.Duration            `json:"took_ns,omitempty"`
	Phases map[string]time.Duration `json:"phases_ns,omitempty"`
	Waits  map[string]time.Duration `json:"waits_ns,omitempty"`
	// Changes has the settings or limits that are not as before, by name.
	Changes map[string]Change `json:"changes,omitempty"`
	// Lost is the number of records before this one that could not be written.
	Lost int64 `json:"lost,omitempty"`
}

// Actor is who asked for a change.
type Actor struct {
	// Kind is user for a request on the admin socket, engine for one of the engine, kubelet
	// for one of kubelet, and plugin for what the plugin did on its own.
	Kind string `json:"kind"`
	// UID is that of the process that opened the admin socket, as the kernel says; nil for
	// others.
	UID *int64 `json:"uid,omitempty"`
	// Claim is the name that the user gave. Nothing proves it.
	Claim string `json:"claim,omitempty"`
}

// Change is a changed value.
type Change struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// AuditFilter selects records. Empty fields select all.
type AuditFilter struct {
	Since, Until            time.Time // Until is excluded
	Subject, Volume, Action string
	Tail                    int  // only the last ones of those that are there; 0: all
	Follow                  bool // wait for new records
}

// Audit calls f with each record of the audit log that filter selects, oldest first, until
// f fails, ctx ends, or the plugin ends the answer. The error is that of f, or of the
// connection.
func (c *Client) Audit(ctx context.Context, filter AuditFilter, f func(AuditRecord) error) error {
	query := make(url.Values)
	for name, value := range map[string]string{"subject": filter.Subject, "volume": filter.Volume, "action": filter.Action} {
		if value != "" {
			query.Set(name, value)
		}
	}
	setQuery(query, filter.Since, filter.Until, filter.Tail, filter.Follow)
	return records(ctx, c, "/v1/audit?"+query.Encode(), f)
}
