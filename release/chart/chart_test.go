package chart_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/helmdeck/repos/release/chart"
)

const (
	chartDir  = "../../deploy/helm"
	kustomize = "../../deploy/kubernetes"
)

func load(t *testing.T) chart.Chart {
	t.Helper()
	c, err := chart.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// objects decodes documents by kind.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	list := make(map[string]map[string]any)
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o map[string]any
		if err := d.Decode(&o); err != nil {
			if err.Error() == "EOF" {
				return list
			}
			t.Fatal(err)
		}
		if o != nil {
			list[o["kind"].(string)] = o
		}
	}
}

// at returns the value at a path in an object.
func at(o any, path ...any) any {
	for _, step := range path {
		switch v := o.(type) {
		case map[string]any:
			o = v[step.(string)]
		case []any:
			o = v[step.(int)]
		default:
			return nil
		}
	}
	return o
}

// kustomized returns the objects of deploy/kubernetes as kustomize makes them, but for the hash in the ConfigMap's name.
// tests/charts has kustomize itself.
func kustomized(t *testing.T) map[string]map[string]any {
	t.Helper()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(kustomize, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	var k struct {
		Namespace string
		Resources []string
		Images    []struct{ Name, NewName, NewTag string }
	}
	if err := yaml.Unmarshal([]byte(strings.NewReplacer("newName", "newname", "newTag", "newtag").Replace(read("kustomization.yaml"))), &k); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]map[string]any)
	for _, name := range k.Resources {
		maps.Copy(all, objects(t, strings.ReplaceAll(read(name), "image: "+k.Images[0].Name+"\n", "image: "+k.Images[0].NewName+":"+k.Images[0].NewTag+"\n")))
	}
	data := make(map[string]any)
	for line := range strings.Lines(read("settings.env")) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			data[name] = value
		}
	}
	all["ConfigMap"] = map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": data}
	for _, kind := range []string{"ServiceAccount", "ConfigMap", "DaemonSet"} {
		all[kind]["metadata"].(map[string]any)["namespace"] = k.Namespace
	}
	return all
}

// TestSameAsKustomize checks that the chart and deploy/kubernetes make the same objects. The annotation does in the chart
// what the hash in the ConfigMap's name does there. Control: another value is another object.
func TestSameAsKustomize(t *testing.T) {
	c := load(t)
	manifest, err := c.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	got, want := objects(t, string(manifest)), kustomized(t)
	annotations := at(got["DaemonSet"], "spec", "template", "metadata").(map[string]any)
	if text, _ := at(annotations, "annotations", "helmdeck.dev/settings").(string); !strings.Contains(text, "20GiB") {
		t.Errorf("the annotation of the settings is %q", text)
	}
	delete(annotations, "annotations")
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Fatalf("got the kinds %q, want %q", g, w)
	}
	for kind := range want {
		g, _ := yaml.Marshal(got[kind])
		w, _ := yaml.Marshal(want[kind])
		if string(g) != string(w) {
			t.Errorf("%s: the chart makes\n%s\nkustomize makes\n%s", kind, g, w)
		}
	}
}

// TestValues checks what the values change.
func TestValues(t *testing.T) {
	c := load(t)
	values, err := c.Values()
	if err != nil {
		t.Fatal(err)
	}
	values["image"] = map[string]any{"repository": "r.example.com/x", "tag": "7", "pullPolicy": "Always"}
	values["imagePullSecrets"] = []any{"login"}
	values["settings"] = map[string]any{"MAX_SIZE": `1"GiB`, "KEEP_READY": true}
	values["kubeletDir"], values["dataDir"] = "/k", "/d"
	values["nodeSelector"] = map[string]any{"disk": "ssd"}
	rendered, err := c.Render("ns", values)
	if err != nil {
		t.Fatal(err)
	}
	if text := rendered["namespace.yaml"]; strings.TrimSpace(text) != "" {
		t.Errorf("without createNamespace: %s", text)
	}
	if got := at(objects(t, rendered["settings.yaml"])["ConfigMap"], "data", "MAX_SIZE"); got != `1"GiB` {
		t.Errorf("MAX_SIZE: got %q", got)
	}
	set := objects(t, rendered["daemonset.yaml"])["DaemonSet"]
	spec := at(set, "spec", "template", "spec")
	container := at(spec, "containers", 0)
	for what, c := range map[string]struct{ got, want any }{
		"namespace":      {at(set, "metadata", "namespace"), "ns"},
		"image":          {at(container, "image"), "r.example.com/x:7"},
		"pull policy":    {at(container, "imagePullPolicy"), "Always"},
		"pull secret":    {at(spec, "imagePullSecrets", 0, "name"), "login"},
		"node":           {at(spec, "nodeSelector", "disk"), "ssd"},
		"endpoint":       {at(container, "env", 0, "value"), "/k/plugins/repos.helmdeck.dev/csi.sock"},
		"kubelet":        {at(container, "env", 2, "value"), "/k"},
		"kubelet's":      {at(container, "volumeMounts", 1, "mountPath"), "/k"},
		"kubelet's node": {at(spec, "volumes", 1, "hostPath", "path"), "/k"},
		"data":           {at(spec, "volumes", 0, "hostPath", "path"), "/d"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", what, c.got, c.want)
		}
	}
	delete(values, "dataDir")
	if _, err := c.Render("ns", values); err == nil {
		t.Error("a value that is missing is not an error")
	}
}

// TestReleased checks that a release names its own version and image, and that a chart without the places is refused.
func TestReleased(t *testing.T) {
	c := load(t)
	released, err := c.Released("1.2.3", "r.example.com/helmdeck/repos-csi")
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := released.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if want := `image: "r.example.com/helmdeck/repos-csi:1.2.3"`; !strings.Contains(string(manifest), want) {
		t.Errorf("the manifest lacks %s:\n%s", want, manifest)
	}
	if text := string(released["Chart.yaml"]); !strings.Contains(text, "\nversion: 1.2.3\n") || strings.Contains(text, "0.0.0") {
		t.Errorf("Chart.yaml: %s", text)
	}
	if _, err := released.Released("1.2.4", "r"); err == nil {
		t.Error("a chart without the places for version and image is not an error")
	}
}
