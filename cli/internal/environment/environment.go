// Package environment writes what mounts a volume and leads tools to its caches, in the forms that docker,
// compose and shells take. Names, URLs and options may be any text; it is quoted as each form needs it.
package environment

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/helmdeck/repos/api"
)

// Mount is a volume that is mounted at a path.
type Mount struct {
	Volume string // its name; empty for an anonymous volume
	// New is set if the first use makes the volume, with Driver and Options.
	New       bool
	Driver    string
	Options   map[string]string
	Target    string // where it is mounted
	Service   string // of a compose fragment
	Variables []api.Variable
}

// Forms are the forms by their names.
var Forms = map[string]func(Mount) string{"run": Run, "compose": Compose, "shell": Shell}

// Run returns flags of docker run, on one line, because a line break ends a command that eval runs.
func Run(m Mount) string {
	var b strings.Builder
	fmt.Fprintf(&b, "--mount %s", Quote(Argument(m)))
	for _, v := range m.Variables {
		fmt.Fprintf(&b, " --env %s", Quote(v.Name+"="+v.Value))
	}
	return b.String() + "\n"
}

// Argument returns the argument of docker run's --mount, without a path if there is no Target: the caller appends it.
func Argument(m Mount) string {
	fields := []string{"type=volume"}
	if m.Volume != "" {
		fields = append(fields, "src="+m.Volume)
	}
	if m.Target != "" {
		fields = append(fields, "dst="+m.Target)
	}
	if m.New {
		fields = append(fields, "volume-driver="+m.Driver)
		for _, name := range slices.Sorted(maps.Keys(m.Options)) {
			fields = append(fields, "volume-opt="+name+"="+m.Options[name])
		}
	}
	return record(fields)
}

// record returns fields as docker run reads a mount: as a line of CSV.
func record(fields []string) string {
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(fields) // a strings.Builder takes everything
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// Shell returns commands that set the variables in a POSIX shell.
func Shell(m Mount) string {
	var b strings.Builder
	for _, v := range m.Variables {
		fmt.Fprintf(&b, "export %s=%s\n", v.Name, Quote(v.Value))
	}
	return b.String()
}

// safe matches what every shell takes as it is.
var safe = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote returns text as one word of a POSIX shell.
func Quote(text string) string {
	if safe.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Compose returns a compose file with a service that has the volume and the variables.
func Compose(m Mount) string {
	var b strings.Builder
	key := m.Volume // of the volume in the file
	if key == "" || !composeKey.MatchString(key) {
		key = "src"
	}
	fmt.Fprintf(&b, "services:\n  %s:\n", scalar(m.Service))
	if len(m.Variables) > 0 {
		b.WriteString("    environment:\n")
		for _, v := range m.Variables {
			fmt.Fprintf(&b, "      %s: %s\n", v.Name, scalar(v.Value))
		}
	}
	fmt.Fprintf(&b, "    volumes:\n      - type: volume\n        source: %s\n        target: %s\n", scalar(key), scalar(m.Target))
	fmt.Fprintf(&b, "volumes:\n  %s:\n", scalar(key))
	if !m.New {
		fmt.Fprintf(&b, "    external: true\n    name: %s\n", scalar(m.Volume))
		return b.String()
	}
	if m.Volume != "" {
		fmt.Fprintf(&b, "    name: %s\n", scalar(m.Volume))
	}
	fmt.Fprintf(&b, "    driver: %s\n    driver_opts:\n", scalar(tagged(m.Driver)))
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		fmt.Fprintf(&b, "      %s: %s\n", scalar(name), scalar(m.Options[name]))
	}
	return b.String()
}

// composeKey matches the names that compose allows in a file.
var composeKey = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// tagged adds the tag to a driver's name: old versions of compose compare it with the engine's.
func tagged(driver string) string {
	if strings.Contains(driver[strings.LastIndex(driver, "/")+1:], ":") {
		return driver
	}
	return driver + ":latest"
}

// scalar returns text as a YAML string in double quotes: those of JSON are a part of YAML. Compose
// replaces variables, so a dollar sign is doubled.
func scalar(text string) string {
	quoted, _ := json.Marshal(text) // a string is always possible
	return strings.ReplaceAll(string(quoted), "$", "$$")
}
