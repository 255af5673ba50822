package prebuild

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// entry is a repository in a file of jobs.
type entry struct {
	Repo         string            `yaml:"repo"`
	Image        string            `yaml:"image"`
	Setup        string            `yaml:"setup"`
	Update       string            `yaml:"update"`
	Devcontainer bool              `yaml:"devcontainer"`
	Options      map[string]string `yaml:"options"`
	Env          []string          `yaml:"env"`
	Network      string            `yaml:"network"`
	Target       string            `yaml:"target"`
	Timeout      string            `yaml:"timeout"`
}

// list is a file of jobs.
type list struct {
	Repositories []yaml.Node `yaml:"repositories"`
}

// Parse reads a file of jobs, which name gives in errors. It is strict: an unknown or repeated key, a job that Check
// refuses, and two jobs for one state are errors, with the line.
func Parse(name string, data []byte) ([]Job, error) {
	wrong := func(n *yaml.Node, err error) error { return fmt.Errorf("%s:%d: %w", name, n.Line, err) }
	var document yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it has more than one document", name)
	}
	var all list
	if err := decode(&document, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(all.Repositories) == 0 {
		return nil, fmt.Errorf("%s: it has no repositories: list them under repositories:, each with repo, image, setup and options", name)
	}
	var jobs []Job
	lines := make(map[string]int) // by what a state depends on
	for i := range all.Repositories {
		n := &all.Repositories[i]
		var e entry
		if err := decode(n, &e); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		j, err := e.job()
		if err != nil {
			return nil, wrong(n, err)
		}
		if line := lines[j.key()]; line > 0 {
			return nil, wrong(n, fmt.Errorf("line %d has the same repository with the same options: their states would replace each other", line))
		}
		lines[j.key()] = n.Line
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// decode decodes a mapping into a pointer to a struct, and refuses keys that no field has.
func decode(n *yaml.Node, into any) error {
	if n.Kind == yaml.DocumentNode {
		n = n.Content[0]
	}
	if n.Kind == 0 { // of an empty file
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: allowed is a mapping", n.Line)
	}
	var known []string
	for field := range reflect.TypeOf(into).Elem().Fields() {
		known = append(known, field.Tag.Get("yaml"))
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(known, key.Value) {
			return fmt.Errorf("line %d: unknown key %q: allowed are %s", key.Line, key.Value, strings.Join(known, ", "))
		}
	}
	return n.Decode(into)
}

// job returns the job of an entry, if it is possible.
func (e entry) job() (Job, error) {
	j := Job{
		Repo: e.Repo, Image: e.Image, Setup: e.Setup, Update: e.Update, Devcontainer: e.Devcontainer, Options: e.Options, Env: e.Env,
		Network: e.Network, Target: cmp.Or(e.Target, DefaultTarget), Timeout: DefaultTimeout,
	}
	if e.Timeout != "" {
		var err error
		if j.Timeout, err = time.ParseDuration(e.Timeout); err != nil {
			return j, fmt.Errorf("the timeout %q is not possible: allowed are durations above 0s, such as 30m", e.Timeout)
		}
	}
	return j, j.Check()
}

// key differs for jobs with another repository or other options.
func (j Job) key() string { return fmt.Sprintf("%q %s", j.Repo, j.options()) }

// options returns the options of a job as one text.
func (j Job) options() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(j.Options)) {
		list = append(list, fmt.Sprintf("%s=%q", name, j.Options[name]))
	}
	return strings.Join(list, " ")
}
