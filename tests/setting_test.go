package tests

import (
	"os"
	"strings"
	"testing"
)

// The engine's log names a wrong setting. After a correction the first enable works.
func TestWrongSetting(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	want := plain(t, r.url, "main")
	e.create(t, "v", "repo="+r.url, "ref=main", "subject=setting")
	for _, tc := range []struct{ wrong, want, right string }{
		{"MOUNT_WAIT=never", `setting MOUNT_WAIT=\\\"never\\\": allowed is`, "MOUNT_WAIT=20s"},
		{"LOG_LEVEL=loud", `setting LOG_LEVEL=\\\"loud\\\": allowed is`, "LOG_LEVEL=info"},
	} {
		e.disable(t)
		e.docker(t, "plugin", "set", pluginName, tc.wrong)
		e.wantError(t, "plugin", "enable", "--timeout", "120", pluginName)
		log, err := os.ReadFile(e.Path("log"))
		if err != nil || !strings.Contains(string(log), tc.want) {
			t.Errorf("the engine's log does not contain %s: %v", tc.want, err)
		}
		e.docker(t, "plugin", "set", pluginName, tc.right)
		e.enable(t)
		same(t, "after "+tc.wrong, e.sh(t, mount("v"), portrait), want)
	}
	e.docker(t, "volume", "rm", "v")
	e.awaitReclaimed(t, "setting")
	e.awaitNoChildren(t)
}
