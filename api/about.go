package api

import (
	"context"
	"net/http"
	"time"
)

// Version describes the running plugin.
type Version struct {
	API       string    `json:"api"`     // v1
	Version   string    `json:"version"` // of the module, or (devel)
	Go        string    `json:"go"`
	Platform  string    `json:"platform"`           // such as linux/amd64
	Revision  string    `json:"revision,omitempty"` // the commit it was built from, if the build recorded it
	Modified  bool      `json:"modified,omitempty"` // built with changes on top of that
	StartedAt time.Time `json:"started_at"`
	// Build are the settings of the build, such as CGO_ENABLED.
	Build map[string]string `json:"build"`
	// Modules are the versions of the modules it was built with.
	Modules map[string]string `json:"modules"`
}

// Setting is a setting in force.
type Setting struct {
	Name string `json:"name"` // such as MAX_SIZE
	// Value is that in force; empty if Hidden.
	Value   string `json:"value"`
	Default string `json:"default"`
	Set     bool   `json:"set"` // to something else than the default
	// Hidden is set for a value that is not shown: it may be a secret, or is long.
	Hidden bool `json:"hidden,omitempty"`
}

// Health is the result of the plugin's checks of itself and of its machine.
type Health struct {
	Time time.Time `json:"time"` // the plugin's clock
	// Status is the worst of the checks: ok, warning or failed.
	Status string  `json:"status"`
	Checks []Check `json:"checks"`
}

// Check is one check.
type Check struct {
	Name string `json:"name"` // such as disk or overlay
	// Target names the host or the credential that was checked. Other checks have none.
	Target string `json:"target,omitempty"`
	Status string `json:"status"` // ok, warning or failed
	Text   string `json:"text"`   // what was found
	// Remedy says what to do; empty if it is ok.
	Remedy string `json:"remedy,omitempty"`
}

// Version returns the version of the plugin.
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/version", nil, &v)
	return v, err
}

// Settings returns the settings in force, by name.
func (c *Client) Settings(ctx context.Context) ([]Setting, error) {
	var answer struct{ Settings []Setting }
	err := c.call(ctx, http.MethodGet, "/v1/settings", nil, &answer)
	return answer.Settings, err
}

// The values of Status.
const (
	OK      = "ok"
	Warning = "warning" // it works, but less well than it could, or not for all
	Failed  = "failed"  // it does not work until somebody does what Remedy says
)

// Health makes the plugin check itself and its machine, and the hosts of repositories if
// remotes is set: that takes ten seconds for a host that does not answer, and longer for many.
func (c *Client) Health(ctx context.Context, remotes bool) (h Health, err error) {
	path := "/v1/health"
	if remotes {
		path += "?remotes=true"
	}
	err = c.call(ctx, http.MethodGet, path, nil, &h)
	return h, err
}
