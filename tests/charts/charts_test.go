// Package charts renders the Helm chart of deploy/helm with Helm itself, and deploy/kubernetes with kustomize itself, and
// compares both with what the release makes of the chart.
//
// It is a module of its own, because Helm and kustomize are large. It is part of `make test-release`.
package charts

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	released "github.com/helmdeck/repos/release/chart"
)

const (
	chartDir  = "../../deploy/helm"
	kustomize = "../../deploy/kubernetes"
)

var release = flag.String("release", "", "the `directory` in whose build/release is the release 1.2.3, whose chart and YAML are compared too")

// render renders a chart as `helm template` does.
func render(t *testing.T, c *chart.Chart, values map[string]any) (map[string]string, error) {
	t.Helper()
	if err := chartutil.ValidateAgainstSchema(c, merged(t, c, values)); err != nil {
		return nil, err
	}
	full, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "repos", Namespace: released.Namespace}, nil)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(c, full)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]string)
	for name, text := range rendered {
		byName[filepath.Base(name)] = text
	}
	return byName, nil
}

func merged(t *testing.T, c *chart.Chart, values map[string]any) map[string]any {
	t.Helper()
	all, err := chartutil.CoalesceValues(c, values)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func load(t *testing.T, path string) *chart.Chart {
	t.Helper()
	c, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

// objects decodes documents by kind.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	list := make(map[string]any)
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%v:\n%s", err, document)
		}
		if o != nil {
			list[o["kind"].(string)] = o
		}
	}
	return list
}

func text(t *testing.T, o any) string {
	t.Helper()
	data, err := yaml.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestHelm checks that Helm renders the chart as the release does, with the default values and with others, and that it
// refuses values that the chart does not know.
func TestHelm(t *testing.T) {
	helm := load(t, chartDir)
	ours, err := released.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]map[string]any{
		"the default values": {},
		"others": {
			"createNamespace": true, "image": map[string]any{"repository": "r.example.com/x", "tag": "7"}, "imagePullSecrets": []any{"login"},
			"settings": map[string]any{"MAX_SIZE": `1"GiB`, "ALLOW_SCHEMES": "ssh"}, "kubeletDir": "/k", "dataDir": "/d", "nodeSelector": map[string]any{"disk": "ssd"},
		},
	} {
		got, err := render(t, helm, values)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := ours.Render(released.Namespace, merged(t, helm, values))
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: Helm renders %d templates, the release %d", name, len(got), len(want))
		}
		for file := range want {
			if got[file] != want[file] {
				t.Errorf("%s: %s: Helm renders\n%s\nthe release\n%s", name, file, got[file], want[file])
			}
		}
	}
	for name, values := range map[string]map[string]any{
		"an unknown value":   {"setings": map[string]any{}},
		"a number":           {"settings": map[string]any{"MAX_SIZE": 1000000}},
		"a relative path":    {"dataDir": "data"},
		"an unknown setting": {"settings": map[string]any{"max_size": "1"}},
	} {
		if _, err := render(t, helm, values); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
}

// TestKustomize checks that the chart and kustomize make the same objects, but for the hash in the name of kustomize's
// ConfigMap, in whose place the chart has an annotation.
func TestKustomize(t *testing.T) {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), kustomize)
	if err != nil {
		t.Fatal(err)
	}
	var hashed string
	for _, r := range made.Resources() {
		if r.GetKind() == "ConfigMap" {
			hashed = r.GetName()
		}
	}
	out, err := made.AsYaml()
	if err != nil || !strings.HasPrefix(hashed, "settings-") {
		t.Fatalf("kustomize makes the ConfigMap %q, %v", hashed, err)
	}
	want := objects(t, strings.ReplaceAll(string(out), hashed, "settings"))
	rendered, err := render(t, load(t, chartDir), map[string]any{"createNamespace": true})
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]any)
	for _, document := range rendered {
		for kind, o := range objects(t, document) {
			got[kind] = o
		}
	}
	pods := got["DaemonSet"].(map[string]any)["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
	if pods["annotations"] == nil {
		t.Error("the chart has no annotation of the settings")
	}
	delete(pods, "annotations")
	if len(got) != len(want) {
		t.Errorf("the chart makes %d objects, kustomize %d", len(got), len(want))
	}
	for kind := range want {
		if g, w := text(t, got[kind]), text(t, want[kind]); g != w {
			t.Errorf("%s: the chart makes\n%s\nkustomize\n%s", kind, g, w)
		}
	}
}

// TestPacked checks that Helm reads the chart as a release packs it, and renders what the release's YAML has.
func TestPacked(t *testing.T) {
	dir := t.TempDir()
	archive := filepath.Join(dir, "helmdeck-repos-1.2.3.tgz")
	var manifest []byte
	if *release != "" {
		from := filepath.Join(*release, "build/release/1.2.3")
		archive = filepath.Join(from, filepath.Base(archive))
		var err error
		if manifest, err = os.ReadFile(filepath.Join(from, "kubernetes.yaml")); err != nil {
			t.Fatal(err)
		}
	} else {
		manifest = pack(t, archive)
	}
	c := load(t, archive)
	if c.Metadata.Version != "1.2.3" || c.Metadata.AppVersion != "1.2.3" {
		t.Errorf("the chart has the versions %s and %s", c.Metadata.Version, c.Metadata.AppVersion)
	}
	rendered, err := render(t, c, map[string]any{"createNamespace": true})
	if err != nil {
		t.Fatal(err)
	}
	all := objects(t, string(manifest))
	for name, document := range rendered {
		for kind, o := range objects(t, document) {
			if g, w := text(t, o), text(t, all[kind]); g != w {
				t.Errorf("%s: Helm renders\n%s\nkubernetes.yaml has\n%s", name, g, w)
			}
			delete(all, kind)
		}
	}
	if len(all) > 0 {
		t.Errorf("kubernetes.yaml has more than the chart: %v", all)
	}
}

// pack packs the chart as a release does, and returns its file for kubectl.
func pack(t *testing.T, archive string) []byte {
	t.Helper()
	c, err := released.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = c.Released("1.2.3", "registry.example.com/helmdeck/repos-csi"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.Pack(&out, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(archive, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	manifest, err := c.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}
