package environment

import (
	"encoding/csv"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/helmdeck/repos/api"
)

// hostile is text that every form must quote.
const hostile = "it's $(reboot) `x` \"q\", a=b\\\n\t#: ${HOME}"

var mounts = map[string]Mount{
	"existing": {Volume: "src", Target: "/w", Service: "work", Variables: []api.Variable{{Name: "GOCACHE", Value: "/w/.git/hdcache/go-build"}}},
	"new": {
		New: true, Driver: "helmdeck/repos", Target: "/w", Service: "work", Options: map[string]string{"repo": "https://h/r", "warm": "a,b"},
		Variables: []api.Variable{{Name: "A", Value: "1"}},
	},
	"hostile": {
		Volume: hostile, New: true, Driver: "h/d:1", Target: "/" + hostile, Service: hostile, Options: map[string]string{"repo": hostile},
		Variables: []api.Variable{{Name: "A", Value: hostile}},
	},
}

// words returns the words that a shell makes of text.
func words(t *testing.T, text string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "set -- "+text+"\nprintf '%s\\0' \"$@\"").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func TestRun(t *testing.T) {
	if got, want := Run(mounts["existing"]), "--mount type=volume,src=src,dst=/w --env GOCACHE=/w/.git/hdcache/go-build\n"; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	for name, m := range mounts {
		got := words(t, strings.TrimSuffix(Run(m), "\n"))
		if len(got) != 2+2*len(m.Variables) || got[0] != "--mount" || got[2] != "--env" || got[3] != m.Variables[0].Name+"="+m.Variables[0].Value {
			t.Fatalf("%s: got %q", name, got)
		}
		fields, err := csv.NewReader(strings.NewReader(got[1])).Read()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := []string{"type=volume"}
		if m.Volume != "" {
			want = append(want, "src="+m.Volume)
		}
		want = append(want, "dst="+m.Target)
		if m.New {
			want = append(want, "volume-driver="+m.Driver)
		}
		for _, o := range []string{"repo", "warm"} {
			if v, ok := m.Options[o]; ok {
				want = append(want, "volume-opt="+o+"="+v)
			}
		}
		if !slices.Equal(fields, want) {
			t.Errorf("%s: got %q, want %q", name, fields, want)
		}
	}
}

func TestShell(t *testing.T) {
	for name, m := range mounts {
		out, err := exec.Command("sh", "-c", Shell(m)+`printf %s "$`+m.Variables[0].Name+`"`).Output()
		if err != nil || string(out) != m.Variables[0].Value {
			t.Errorf("%s: got %q, %v", name, out, err)
		}
	}
}

func TestCompose(t *testing.T) {
	type file struct {
		Services map[string]struct {
			Environment map[string]string
			Volumes     []struct{ Type, Source, Target string }
		}
		Volumes map[string]struct {
			External     bool
			Name, Driver string
			Options      map[string]string `yaml:"driver_opts"`
		}
	}
	for name, m := range mounts {
		var f file
		d := yaml.NewDecoder(strings.NewReader(Compose(m)))
		d.KnownFields(true)
		if err := d.Decode(&f); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, Compose(m))
		}
		plain := func(s string) string { return strings.ReplaceAll(s, "$$", "$") } // as compose does
		for service, s := range f.Services {
			if plain(service) != m.Service || plain(s.Environment[m.Variables[0].Name]) != m.Variables[0].Value || plain(s.Volumes[0].Target) != m.Target {
				t.Errorf("%s: got service %q %+v", name, service, s)
			}
			v, ok := f.Volumes[s.Volumes[0].Source]
			if !ok || plain(v.Name) != m.Volume || v.External == m.New {
				t.Errorf("%s: got volume %+v", name, v)
			}
			if m.New && (v.Driver != tagged(m.Driver) || plain(v.Options["repo"]) != m.Options["repo"] || len(v.Options) != len(m.Options)) {
				t.Errorf("%s: got volume %+v", name, v)
			}
		}
		if len(f.Services) != 1 || len(f.Volumes) != 1 {
			t.Errorf("%s: got %+v", name, f)
		}
	}
	if got := tagged("localhost:5000/d"); got != "localhost:5000/d:latest" {
		t.Errorf("got %s", got)
	}
}
