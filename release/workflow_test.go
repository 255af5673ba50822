package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// workflow is what is checked of a workflow file.
type workflow struct {
	Defaults struct {
		Run struct{ Shell string }
	}
	Jobs map[string]struct {
		Steps []struct{ Uses, Run, Shell string }
	}
}

// asRoot is the only shell that a workflow may set: it runs the step as root, with the PATH of the runner.
const asRoot = `bash -c "exec sudo --preserve-env env PATH=$PATH bash -e {0}"`

var (
	call   = regexp.MustCompile(`^make ([a-z-]+)( [A-Z_]+=[A-Za-z0-9.-]*)*$`)
	pinned = regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
)

// check returns what a workflow does besides calling targets of the Makefile and pinned actions.
func check(text []byte, makefile string) (faults []string) {
	var w workflow
	if err := yaml.Unmarshal(text, &w); err != nil {
		return []string{err.Error()}
	}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if s := w.Defaults.Run.Shell; s != "" && s != asRoot {
		fault("the shell is %q", s)
	}
	steps := 0
	for name, job := range w.Jobs {
		for _, step := range job.Steps {
			steps++
			m := call.FindStringSubmatch(step.Run)
			switch {
			case step.Shell != "":
				fault("%s: a step has the shell %q", name, step.Shell)
			case step.Uses != "" && !pinned.MatchString(step.Uses):
				fault("%s: %q is not pinned to a commit", name, step.Uses)
			case step.Run != "" && m == nil:
				fault("%s: %q is not a call of one target of the Makefile", name, step.Run)
			case step.Run != "" && !strings.Contains(makefile, "\n"+m[1]+":"):
				fault("%s: the Makefile has no target %s", name, m[1])
			}
		}
	}
	if steps == 0 {
		fault("no steps")
	}
	return faults
}

func TestWorkflows(t *testing.T) {
	data, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	makefile := string(data)
	names, err := filepath.Glob("../.github/workflows/*")
	if err != nil || len(names) < 2 {
		t.Fatalf("workflows: %q, %v; want at least 2", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range check(text, makefile) {
			t.Errorf("%s: %s", name, fault)
		}
	}
	for _, control := range []string{
		"run: go test ./...", "run: make test; curl x", "run: make no-such-target", "run: |\n          make test\n          true",
		"run: make", "uses: actions/checkout@main", "uses: actions/checkout@v4", "uses: actions/checkout", "{run: make test, shell: python}", "run: make test VERSION=$(id)",
	} {
		if check([]byte("jobs:\n  a:\n    steps:\n      - "+control+"\n"), makefile) == nil {
			t.Errorf("no fault was found in %q", control)
		}
	}
	if faults := check([]byte("jobs:\n  a:\n    steps:\n      - run: make test\n"), makefile); faults != nil {
		t.Errorf("a good step: %q", faults)
	}
}
