package show

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/helmdeck/repos/api"
)

// Error adds to a refusal of the plugin what is in the way, a line each. It takes from an error of the
// connection what only a program needs.
func Error(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err
	}
	refused, ok := errors.AsType[*api.Error](err)
	if !ok || len(refused.Obstacles) == 0 {
		return err
	}
	var b strings.Builder
	b.WriteString(err.Error())
	forced, leases := 0, false
	for _, o := range refused.Obstacles {
		fmt.Fprintf(&b, "\n  %s: %s", Text(o.Kind), Text(o.Text))
		if o.Forced {
			forced++
		}
		leases = leases || o.Kind == "lease"
	}
	if leases {
		b.WriteString("\ndocker repos leases ls names the containers")
	}
	if forced == len(refused.Obstacles) {
		b.WriteString("\n--discard discards this")
	}
	return errors.New(b.String())
}
