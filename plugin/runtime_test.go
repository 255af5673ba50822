package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/driver"
)

func TestParseRemap(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0123456789abcdef", 4)
	for _, tt := range []struct {
		path string
		want *driver.Remap
	}{
		{"/var/lib/docker/231072.231073/plugins/" + id + "/propagated-mount", &driver.Remap{UID: 231072, GID: 231073}},
		{"/100000.100000/plugins/" + id + "/propagated-mount", &driver.Remap{UID: 100000, GID: 100000}}, // the engine's directory is a disk of its own
		{"/var/lib/docker/plugins/" + id + "/propagated-mount", nil},
		{"/var/lib/docker/231072.99999999999/plugins/" + id + "/propagated-mount", nil},
		{"/var/lib/docker/231072.231072/plugins/" + id + "/propagated-mount/x", nil},
		{"/", nil},
	} {
		if got := parseRemap(tt.path); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.path, got, tt.want)
		}
	}
}

// TestContextWithoutSELinux checks that the start fails, with the reason, if the kernel does not support
// the setting.
func TestContextWithoutSELinux(t *testing.T) {
	t.Parallel()
	const context = "system_u:object_r:container_file_t:s0"
	dir := scratch(t)
	err := run(t.Context(), places{socket: dir + "/repos.sock", data: dir + "/data", git: "/usr/bin/git"}, environment("SELINUX_CONTEXT="+context), logrus.New())
	if err == nil || !strings.Contains(err.Error(), "setting SELINUX_CONTEXT="+`"`+context) || !strings.Contains(err.Error(), "without SELinux") {
		t.Errorf("run: %v", err)
	}
}
