package podman

import (
	"slices"
	"strings"
	"testing"
)

// The files of a quadlet, which users copy.
const (
	quadletVolume    = "../../examples/podman/app.volume"
	quadletContainer = "../../examples/podman/app.container"
)

// unit returns the keys of a unit file, as "Section.Key", with their values.
func unit(t *testing.T, path string) map[string]string {
	t.Helper()
	keys, section := map[string]string{}, ""
	for line := range strings.Lines(read(t, path)) {
		line = strings.TrimSpace(line)
		switch key, value, ok := strings.Cut(line, "="); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		case !ok || keys[section+"."+key] != "":
			t.Errorf("%s: the line %q", path, line)
		default:
			keys[section+"."+key] = value
		}
	}
	return keys
}

// The commands that Podman's generator makes of the files work: "podman volume create" with the driver and the
// arguments, and "podman run" with the volume. The generator itself is not in Podman 4.3.
func TestQuadlet(t *testing.T) {
	h := start(t)
	v, c := unit(t, quadletVolume), unit(t, quadletContainer)
	name := v["Volume.VolumeName"]
	if name == "" || v["Volume.Driver"] != "repos" || v["Volume.Options"] != "" || v["Unit.Wants"] != "helmdeck-repos.service" ||
		c["Unit.Wants"] != v["Unit.Wants"] || v["Unit.Requires"]+c["Unit.Requires"] != "" || c["Container.Volume"] != "app.volume:/w" {
		t.Fatalf("%v %v", v, c)
	}
	args := strings.Fields(strings.Replace(v["Volume.PodmanArgs"], "https://github.com/octocat/Hello-World", h.remote.URL("app"), 1))
	if !slices.Contains(args, "repo="+h.remote.URL("app")) {
		t.Fatalf("arguments %q", args)
	}
	h.ok(append(append([]string{"volume", "create", "--driver", v["Volume.Driver"]}, args...), name)...)
	h.ok(inContainer(name, "ls /w/README.md /w/.git/hdcache/npm", "--rm")...)
	h.awaitUnmount(name)
	h.ok("volume", "rm", name)
}
