// Package chart makes of the Helm chart in deploy/helm what a release has for Kubernetes: the chart as Helm packs it, and
// one file for kubectl.
//
// The templates use the functions of text/template alone, none of Helm's or sprig's, so that this package renders them as
// Helm does. tests/charts compares both, and the objects of deploy/kubernetes.
package chart

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"
)

// Name is the chart's.
const Name = "helmdeck-repos"

// Namespace is where the file for kubectl puts the driver, as deploy/kubernetes does.
const Namespace = "helmdeck-repos"

// order is that of the objects in the file for kubectl: what others need comes first.
var order = []string{"namespace.yaml", "serviceaccount.yaml", "csidriver.yaml", "settings.yaml", "daemonset.yaml"}

// Chart has the files of a chart by slash-separated path.
type Chart map[string][]byte

// Load reads the chart in dir.
func Load(dir string) (Chart, error) {
	c := make(Chart)
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		c[name], err = fs.ReadFile(tree, name)
		return err
	})
	return c, err
}

// Released returns the chart of a version, whose image is in a repository.
func (c Chart) Released(version, repository string) (Chart, error) {
	released := maps.Clone(c)
	for _, change := range []struct{ file, from, to string }{
		{"Chart.yaml", "\nversion: 0.0.0 # a release has its own version here\n", fmt.Sprintf("\nversion: %s\n", version)},
		{"Chart.yaml", "\nappVersion: dev ", fmt.Sprintf("\nappVersion: %q ", version)},
		{"values.yaml", "\n  repository: localhost/helmdeck/repos-csi\n", fmt.Sprintf("\n  repository: %s\n", repository)},
	} {
		if !bytes.Contains(released[change.file], []byte(change.from)) {
			return nil, fmt.Errorf("the chart's %s lacks %q", change.file, change.from)
		}
		released[change.file] = bytes.Replace(released[change.file], []byte(change.from), []byte(change.to), 1)
	}
	return released, nil
}

// Values returns the chart's default values.
func (c Chart) Values() (map[string]any, error) {
	var values map[string]any
	if err := yaml.Unmarshal(c["values.yaml"], &values); err != nil {
		return nil, fmt.Errorf("the chart's values.yaml: %w", err)
	}
	return values, nil
}

// Render returns the documents of the templates by the templates' names.
func (c Chart) Render(namespace string, values map[string]any) (map[string]string, error) {
	var chart struct {
		AppVersion string `yaml:"appVersion"`
	}
	if err := yaml.Unmarshal(c["Chart.yaml"], &chart); err != nil {
		return nil, fmt.Errorf("the chart's Chart.yaml: %w", err)
	}
	data := map[string]any{"Values": values, "Chart": chart, "Release": map[string]string{"Namespace": namespace}}
	rendered := make(map[string]string)
	for file, text := range c {
		name, ok := strings.CutPrefix(file, "templates/")
		if !ok {
			continue
		}
		t, err := template.New(name).Option("missingkey=error").Parse(string(text))
		if err != nil {
			return nil, err
		}
		var out strings.Builder
		if err := t.Execute(&out, data); err != nil {
			return nil, err
		}
		rendered[name] = out.String()
	}
	return rendered, nil
}

// Manifest returns the file for kubectl: all objects with the default values, and the namespace.
func (c Chart) Manifest() ([]byte, error) {
	values, err := c.Values()
	if err != nil {
		return nil, err
	}
	values["createNamespace"] = true
	rendered, err := c.Render(Namespace, values)
	if err != nil {
		return nil, err
	}
	if len(rendered) != len(order) {
		return nil, fmt.Errorf("the chart has the templates %q, want %q", slices.Sorted(maps.Keys(rendered)), order)
	}
	out := bytes.NewBufferString("# The CSI driver of helmdeck/repos on each node of a cluster: kubectl apply -f this file.\n")
	for _, name := range order {
		text := strings.TrimSpace(rendered[name])
		if text == "" {
			return nil, fmt.Errorf("the chart has no template %s, or it is empty", name)
		}
		fmt.Fprintf(out, "---\n%s\n", text)
	}
	return out.Bytes(), nil
}

// Pack writes the chart as `helm package` does. Equal charts and times give equal bytes.
func (c Chart) Pack(w io.Writer, at time.Time) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	names := slices.Sorted(maps.Keys(c))
	// Helm wants this one first.
	slices.SortStableFunc(names, func(a, b string) int { return strings.Compare(rank(a), rank(b)) })
	for _, name := range names {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(Name, name), Mode: 0o644, Size: int64(len(c[name])), ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(c[name]); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

func rank(name string) string {
	if name == "Chart.yaml" {
		return ""
	}
	return name
}
