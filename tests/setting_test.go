package tests

import (
	"os"
	"strings"
	"testing"
)

// A wrong setting is named in the engine's log, and enable works at the first try after it was corrected.
func TestWrongSetting(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	want := plain(t, r.url, "main")
	e.create(t, "v", "repo="+r.url, "ref=main", "subject=setting")
	for _, tc := range []struct{ wrong, said, right string }{
		{"MOUNT_WAIT=never", `setting MOUNT_WAIT=\\\"never\\\": allowed is`, "MOUNT_WAIT=20s"},
		{"LOG_LEVEL=loud", `setting LOG_LEVEL=\\\"loud\\\": allowed is`, "LOG_LEVEL=info"},
	} {
		e.disable(t)
		e.docker(t, "plugin", "set", pluginName, tc.wrong)
		e.refused(t, "plugin", "enable", "--timeout", "120", pluginName)
		log, err := os.ReadFile(e.Path("log"))
		if err != nil || !strings.Contains(string(log), tc.said) {
			t.Errorf("the engine's log does not say %s: %v", tc.said, err)
		}
		e.docker(t, "plugin", "set", pluginName, tc.right)
		e.enable(t)
		same(t, "after "+tc.wrong, e.sh(t, mount("v"), portrait), want)
	}
	e.docker(t, "volume", "rm", "v")
	e.reclaimed(t, "setting")
	e.alone(t)
}
