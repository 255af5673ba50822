package repos_test

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// checkFiles checks names of the project's own files and directories.
func checkFiles(k known, p page) (problems []string) {
	for _, s := range p.spans() {
		top, _, ok := strings.Cut(s, "/")
		if info, err := os.Stat(top); !ok || err != nil || !info.IsDir() || top == "build" || top == ".git" || strings.ContainsAny(s, " …<>${}:") {
			continue
		}
		name := strings.TrimSuffix(s, "/")
		if found, err := filepath.Glob(name); err == nil && len(found) > 0 {
			continue
		}
		// internal/volume.Parse is a name in a package.
		if dir, member, ok := strings.Cut(path.Base(name), "."); ok && member != "" && member[0] >= 'A' && member[0] <= 'Z' {
			if _, err := os.Stat(path.Join(path.Dir(name), dir)); err == nil {
				continue
			}
		}
		problems = append(problems, fmt.Sprintf("`%s`: no such file", s))
	}
	for _, b := range p.blocks {
		for _, command := range b.commands() {
			for _, m := range fileWord.FindAllStringSubmatch(command, -1) {
				if _, err := os.Stat(m[1]); err != nil {
					problems = append(problems, fmt.Sprintf("`%s`: no such file: %s", command, m[1]))
				}
			}
		}
	}
	return problems
}

// fileWord matches an argument of a command that is a file of the project.
var fileWord = regexp.MustCompile(`(?:^|\s)((?:api|deploy|docs|examples|packaging)/[\w./-]+)`)

var (
	volumeOpt = regexp.MustCompile(`\bvolume-opt=([\w-]+)`)
	createOpt = regexp.MustCompile(`(?:^|\s)(?:-o|--opt)[ =]([\w-]+)=`)
	bareOpt   = regexp.MustCompile(`^([a-z][a-z_]*)=\S+$`)
	flowOpts  = regexp.MustCompile(`driver_opts: *\{([^}]*)\}`)
	blockOpts = regexp.MustCompile(`(?m)^( *)driver_opts:[^\n{]*\n((?: +[^\n]*\n)+)`)
	yamlKey   = regexp.MustCompile(`(?m)^ *([\w-]+):(?: |$)`)
)

// notOptions are words that pages give values to in the way of options, with whose they are.
var notOptions = map[string]string{
	"name": "a placeholder", "o": "podman's, for itself", "source": "docker's --mount", "text": "an attribute of git",
	"index": "overlayfs", "metacopy": "overlayfs", "redirect_dir": "overlayfs", "context": "the kernel's mounts",
}

// checkOptions checks the names of volumes' options.
func checkOptions(k known, p page) (problems []string) {
	var names []string
	all := func(pattern *regexp.Regexp, text string) {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
	}
	for _, command := range p.commands() {
		all(volumeOpt, command)
		if !strings.HasPrefix(command, "mount ") {
			all(createOpt, command)
		}
	}
	for _, s := range p.spans() {
		all(bareOpt, s)
	}
	names = append(names, p.cells("option")...)
	for _, b := range p.blocks {
		for _, m := range flowOpts.FindAllStringSubmatch(b.text, -1) {
			for _, field := range strings.Split(m[1], ", ") {
				name, _, _ := strings.Cut(strings.TrimSpace(field), ":")
				names = append(names, name)
			}
		}
		for _, m := range blockOpts.FindAllStringSubmatch(b.text, -1) {
			for line := range strings.Lines(m[2]) {
				if len(line)-len(strings.TrimLeft(line, " ")) <= len(m[1]) {
					break
				}
				all(yamlKey, line)
			}
		}
	}
	for _, name := range slices.Compact(names) {
		if !k.options[name] && notOptions[name] == "" {
			problems = append(problems, fmt.Sprintf("no option has the name %q", name))
		}
	}
	return problems
}

var (
	upperSpan = regexp.MustCompile(`^([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)(?:=.*)?$`)
	setLine   = regexp.MustCompile(`docker plugin set \S+((?: [A-Z_]+=\S*)+)`)
)

// checkSettings checks names in capitals: settings of the plugin, variables of make and of tools, capabilities.
func checkSettings(k known, p page) (problems []string) {
	for _, s := range p.spans() {
		if m := upperSpan.FindStringSubmatch(s); m != nil && !k.settings[m[1]] && !k.isOther(m[1]) {
			problems = append(problems, fmt.Sprintf("no setting has the name %q", m[1]))
		}
	}
	for _, name := range p.cells("setting") {
		if !k.settings[name] {
			problems = append(problems, fmt.Sprintf("no setting has the name %q", name))
		}
	}
	for _, command := range p.commands() {
		if m := setLine.FindStringSubmatch(command); m != nil {
			for _, field := range strings.Fields(m[1]) {
				if name, _, _ := strings.Cut(field, "="); !k.settings[name] && name != "NAME" {
					problems = append(problems, fmt.Sprintf("no setting has the name %q", name))
				}
			}
		}
	}
	return problems
}

// isOther reports whether a name in capitals is that of something else than a setting.
func (k known) isOther(name string) bool {
	if otherPrefix.MatchString(name) || regexp.MustCompile(`\b`+name+`\b`).MatchString(k.makefile) {
		return true
	}
	return slices.Contains(otherNames, name) || slices.Contains(cacheVariables(), name)
}

// otherPrefix matches capabilities and variables of git, GitHub Actions, GitLab and the runners' hooks.
var otherPrefix = regexp.MustCompile(`^(CAP|GIT|GITHUB|CI|ACTIONS|RUNNER)_`)

// otherNames are words in capitals that are no settings: placeholders, git's HEAD, methods of HTTP, names of the kernel, columns of
// tables, variables of the tests, the examples, builds and workflows, and what a release has.
var otherNames = []string{"ID", "NAME", "HEAD", "POST", "DELETE", "IN_UNMOUNT", "TCP_USER_TIMEOUT", "STATX_MNT_ID_UNIQUE", "SO_PEERCRED",
	"ENGINE", "CHANGED", "CACHES", "WORKSPACES", "CHECKPOINTS", "SUBJECT", "SOURCE_DATE_EPOCH", "SHA256SUMS", "NOASSERTION",
	"REGISTRY_HOST", "REGISTRY_USER", "REGISTRY_PASSWORD", "NODE"}

// cacheVariables are those of the caches' env file.
func cacheVariables() (names []string) {
	data, err := os.ReadFile("internal/workspace/cache/cache.env")
	if err != nil {
		panic(err)
	}
	for _, m := range regexp.MustCompile(`\b([A-Za-z_]+)=`).FindAllStringSubmatch(string(data), -1) {
		names = append(names, m[1])
	}
	return names
}

var makeCommand = regexp.MustCompile(`(?:^|[;&|(] *)make((?: +[\w./=:'"%-]+)*)`)

// checkMake checks the targets and variables of make.
func checkMake(k known, p page) (problems []string) {
	for _, command := range p.commands() {
		for _, m := range makeCommand.FindAllStringSubmatch(command, -1) {
			for _, word := range strings.Fields(m[1]) {
				name, _, isVariable := strings.Cut(word, "=")
				if isVariable && !regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).MatchString(k.makefile) {
					problems = append(problems, fmt.Sprintf("`%s`: make has no variable %s", command, name))
				} else if !isVariable && !k.targets[word] {
					problems = append(problems, fmt.Sprintf("`%s`: make has no target %s", command, word))
				}
			}
		}
	}
	return problems
}

var (
	reposCommand = regexp.MustCompile(`\bdocker[ -]repos\b([^|;&()\n#]*)`) // docker-repos is the same program
	longFlag     = regexp.MustCompile(`(?:^|\s)(--[a-z][a-z-]*)`)
	shortFlag    = regexp.MustCompile(`(?:^|\s)(-[a-zA-Z])(?:\s|$)`)
	inQuotes     = regexp.MustCompile(`'[^']*'|"[^"]*"`)
)

// checkRepos checks the commands and flags of docker repos.
func checkRepos(k known, p page) (problems []string) {
	if p.name == cliPage {
		return nil
	}
	for _, command := range p.commands() {
		for _, m := range reposCommand.FindAllStringSubmatch(command, -1) {
			words := strings.Fields(strings.NewReplacer(", ", " ", ": ", " ").Replace(m[1] + " "))
			if m[1] != "" && m[1][0] != ' ' || len(words) > 0 && words[0] == "completion" { // docker-repos.spdx.json; cobra's own
				continue
			}
			name := ""
			for n := min(2, len(words)); n > 0 && name == ""; n-- {
				if _, ok := k.flags[strings.Join(words[:n], " ")]; ok {
					name = strings.Join(words[:n], " ")
				}
			}
			if name == "" && len(words) > 0 && !strings.HasPrefix(words[0], "-") && !isGroup(k, words[0], len(words)) {
				problems = append(problems, fmt.Sprintf("`%s`: no such command", strings.TrimSpace(m[0])))
				continue
			}
			for _, f := range longFlag.FindAllStringSubmatch(m[1], -1) {
				if !strings.Contains(k.flags[name]+k.flags[""], f[1]+" ") && f[1] != "--help" {
					problems = append(problems, fmt.Sprintf("`%s`: no flag %s", strings.TrimSpace(m[0]), f[1]))
				}
			}
			for _, f := range shortFlag.FindAllStringSubmatch(inQuotes.ReplaceAllString(m[1], "x"), -1) {
				if !strings.Contains(k.flags[name]+k.flags[""], "  "+f[1]+", --") {
					problems = append(problems, fmt.Sprintf("`%s`: no flag %s", strings.TrimSpace(m[0]), f[1]))
				}
			}
		}
	}
	return problems
}

// isGroup reports whether a single word is the first one of commands, such as checkpoints.
func isGroup(k known, word string, words int) bool {
	for command := range k.flags {
		if words == 1 && strings.HasPrefix(command, word+" ") {
			return true
		}
	}
	return false
}

var dockerCommand = regexp.MustCompile(`(?:^|[|;&(] *|sudo |xargs (?:-\w+ )*)docker +([a-z]+)(?: +([a-z]+)\b)?`)

// checkDocker checks the commands of docker.
func checkDocker(k known, p page) (problems []string) {
	for _, command := range p.commands() {
		for _, m := range dockerCommand.FindAllStringSubmatch(command, -1) {
			group := false
			for name := range k.docker {
				group = group || strings.HasPrefix(name, m[1]+" ")
			}
			if !k.docker[m[1]] || group && m[2] != "" && !k.docker[m[1]+" "+m[2]] {
				problems = append(problems, fmt.Sprintf("`%s`: docker has no such command", strings.TrimSpace(m[0])))
			}
		}
	}
	return problems
}

// checkShell checks that a shell can parse the blocks with commands.
func checkShell(_ known, p page) (problems []string) {
	for _, b := range p.blocks {
		commands := b.commands()
		if b.lang == "sh" {
			commands = []string{b.text}
		}
		for _, command := range commands {
			if out, err := exec.Command("bash", "-nc", command).CombinedOutput(); err != nil {
				problems = append(problems, fmt.Sprintf("line %d: %s: %s", b.line, strings.TrimSpace(command), out))
			}
		}
	}
	return problems
}

var (
	testFunction = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	testName     = regexp.MustCompile(`\bTest[A-Z]\w*`)
)

// checkTests checks the names of tests.
func checkTests(k known, p page) (problems []string) {
	for _, command := range p.commands() {
		for _, name := range testName.FindAllString(command, -1) {
			if !k.tests[name] {
				problems = append(problems, fmt.Sprintf("no test has the name %s", name))
			}
		}
	}
	return problems
}

// missing returns those names that a list does not have.
func missing(names iter.Seq[string], list []string) (not []string) {
	for name := range names {
		if !slices.Contains(list, name) {
			not = append(not, name)
		}
	}
	return not
}

// TestNamesAreDocumented checks that tables have each option, each setting and each action of an operator.
func TestNamesAreDocumented(t *testing.T) {
	k := readKnown(t)
	data, err := os.ReadFile("internal/admin/audit.go")
	if err != nil {
		t.Fatal(err)
	}
	actions := make(map[string]bool)
	for _, a := range regexp.MustCompile(`"[A-Z]+ /v1/[^"]*": +"([a-z.]+)"`).FindAllStringSubmatch(string(data), -1) {
		actions[a[1]] = true
	}
	var options, settings []string
	for _, p := range k.pages {
		options, settings = append(options, p.cells("option")...), append(settings, p.cells("setting")...)
	}
	for _, c := range []struct {
		kind       string
		names      map[string]bool
		documented []string
	}{
		{"option", k.options, options},
		{"setting", k.settings, settings},
		{"action of the audit log", actions, k.pages["docs/operations/audit-log.md"].spans()},
	} {
		for _, name := range missing(maps.Keys(c.names), c.documented) {
			t.Errorf("no page has the %s %q", c.kind, name)
		}
		c.names["gone"] = true
		if got := missing(maps.Keys(c.names), c.documented); !slices.Equal(got, []string{"gone"}) || len(c.names) < 10 {
			t.Errorf("%s: with one that is not documented: %q of %d", c.kind, got, len(c.names))
		}
	}
}
