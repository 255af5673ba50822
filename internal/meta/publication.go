package meta

import "time"

// Publication is a volume at the path of a pod. It is recorded before anything is made for
// it, and deleted after all of that is gone, so that nothing is left over unknown.
type Publication struct {
	Target   string    `json:"target"` // path; the key
	Volume   string    `json:"volume"`
	Lease    string    `json:"lease"` // of the volume
	ReadOnly bool      `json:"read_only,omitempty"`
	Pod      Pod       `json:"pod"`
	At       time.Time `json:"at"`
}

// Pod is the pod that a volume is published to, as the orchestrator names it.
type Pod struct {
	Namespace      string `json:"namespace"`
	Name           string `json:"name"`
	UID            string `json:"uid"`
	ServiceAccount string `json:"service_account"`
}
