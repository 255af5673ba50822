package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
)

// TestLimitsNeedQuotas checks that a volume with a limit is refused where the filesystem has no project quotas, with what
// switches them on, and that a default is told and does not hinder.
func TestLimitsNeedQuotas(t *testing.T) {
	t.Parallel()
	onSmallDisks(t, func(t *testing.T, base, _ string) {
		remedy := map[bool]string{true: "with the option prjquota", false: "tune2fs"}[strings.HasSuffix(t.Name(), "xfs")]
		server := remote(t)
		p := start(t, base, "WORKSPACE_SIZE=1GiB", "WORKSPACE_MAX_INODES=5000")
		p.waitFor("WORKSPACE_SIZE, WORKSPACE_INODES and their maxima have no effect")
		for option, value := range map[string]string{"size": "50m", "inodes": "100"} {
			err := p.tryCreate("limited", map[string]string{"repo": server.URL("sample"), option: value})
			for _, want := range []string{fmt.Sprintf("option %q: %q does not hold here", option, value), "no project quotas", remedy} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("create with %s: %v, want %q", option, err, want)
				}
			}
		}
		p.create("v", map[string]string{"repo": server.URL("sample")})
		p.mount("v", "1")
		status := p.get("v").Status
		if warnings := fmt.Sprint(status["warnings"]); status["limit_bytes"] != 0.0 || status["limit_inodes"] != 0.0 || !strings.Contains(warnings, "no effect") || !strings.Contains(warnings, remedy) {
			t.Errorf("status: limits %v and %v, warnings %v", status["limit_bytes"], status["limit_inodes"], warnings)
		}
		check := func() (found api.Check) {
			t.Helper()
			health, err := api.Dial(filepath.Join(base, adminSocket)).Health(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range health.Checks {
				if c.Name == "limits" {
					found = c
				}
			}
			return found
		}
		if c := check(); c.Status != api.Warning || !strings.Contains(c.Text, remedy) || !strings.Contains(c.Remedy, "WORKSPACE_SIZE") {
			t.Errorf("with a default: %+v", c)
		}
		p.stop()
		start(t, base)
		if c := check(); c.Status != api.OK || !strings.Contains(c.Text, "size and inodes") || !strings.Contains(c.Text, remedy) {
			t.Errorf("without: %+v", c)
		}
	})
}
