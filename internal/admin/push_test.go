package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/helmdeck/repos/internal/outbound/quarantine"
)

// TestPushErrors: a refusal has its status, also if something else failed beside it. A status of 500
// would mean that the plugin is at fault.
func TestPushErrors(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	for why, want := range map[quarantine.Why]int{
		quarantine.Invalid: 400, quarantine.Missing: 404, quarantine.Conflict: 409, quarantine.Denied: 403,
		quarantine.TooLarge: 413, quarantine.Unusable: 422, quarantine.Changed: 503,
	} {
		refused := &quarantine.Refusal{Why: why, Text: "no"}
		for _, err := range []error{refused, errors.Join(refused, nil), errors.Join(refused, errors.New("can't be removed"))} {
			if got := statusOf(pushError(r, err)); got != want {
				t.Errorf("%d, %q: status %d, want %d", why, err, got, want)
			}
		}
	}
}
