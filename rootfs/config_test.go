package rootfs

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/plugin"
)

// TestConfig checks that the engine can read config.json, and that it has the values on which the
// scripts rely.
func TestConfig(t *testing.T) {
	file, err := os.Open("../config.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	var config plugin.Config
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct{ field, got, want string }{
		{"entrypoint", strings.Join(config.Entrypoint, " "), "/usr/bin/helmdeck-repos -managed"},
		{"network", config.Network.Type, "host"},
		{"socket", config.Interface.Socket, "repos.sock"},
		{"propagatedMount", config.PropagatedMount, "/data"},
		// Overlays need SYS_ADMIN. Without DAC_READ_SEARCH the kernel mounts them, but turns index
		// off: a file that was copied up gets another inode number after its inode has left the
		// kernel's cache.
		{"capabilities", strings.Join(config.Linux.Capabilities, " "), "CAP_SYS_ADMIN CAP_DAC_READ_SEARCH"},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.field, tc.got, tc.want)
		}
	}
	// Package hostnames follows the host's files through these directories. The plugin gets no other.
	// A file that is mounted at /etc/hosts in the host is seen, and what is mounted below /run is not.
	var mounts []string
	for _, m := range config.Mounts {
		mounts = append(mounts, fmt.Sprint(*m.Source, " ", m.Destination, " ", m.Type, " ", m.Options, m.Settable))
	}
	want := []string{
		"/etc /host/etc bind [rbind ro nosuid nodev noexec rslave] []",
		"/run /host/run bind [bind ro nosuid nodev noexec slave] []",
	}
	if !slices.Equal(mounts, want) {
		t.Errorf("mounts: got %q, want %q", mounts, want)
	}
	if want := "(build dev)"; !strings.Contains(config.Description, want) {
		t.Errorf("description: got %q, want %q in it, which rootfs/assemble replaces with the identity of the build", config.Description, want)
	}
	for _, env := range config.Env {
		if env.Value == nil || env.Description == "" || !slices.Equal(env.Settable, []string{"value"}) {
			t.Errorf("env %s: got %+v, want a default value, a description, and the value settable", env.Name, env)
		}
	}
}
