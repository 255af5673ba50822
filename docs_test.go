package repos_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	_ "github.com/helmdeck/repos/tests/environ"
)

// known is what pages may name.
type known struct {
	pages    map[string]page
	options  map[string]bool // of volumes
	settings map[string]bool // of the plugin
	targets  map[string]bool // of make
	makefile string
	flags    map[string]string // help by command of docker repos
	docker   map[string]bool   // commands of docker, such as "volume create"
	tests    map[string]bool   // functions, such as TestDocs
}

// check returns what is wrong with a page. Other things of the same kind may be wrong too.
type check func(k known, p page) []string

// checks are all checks, each with texts that it must find fault with, and one that it must not.
var checks = []struct {
	name  string
	check check
	wrong []string
	right string
}{
	{"links", checkLinks,
		[]string{"[a](docs/gone.md)", "[a](README.md#gone)", "[a](#gone)", "![a](gone.svg)", "[a\nb](gone)"},
		"# A `b` c\n[a](README.md) [b](#a-b-c) [c](https://example.com/gone) `[d](gone)`\n```\n[e](gone)\n```\n"},
	{"files", checkFiles,
		[]string{"`docs/gone.md`", "`internal/gone`", "`internal/volume/gone.go`", "```sh\nsh examples/gone.sh x\n```\n"},
		"`docs/design.md` `internal/volume` `tests/*_test.go` `internal/volume.Parse`"},
	{"options", checkOptions,
		[]string{"`--mount type=volume,volume-driver=helmdeck/repos,volume-opt=gone=1`", "```sh\ndocker volume create -d helmdeck/repos -o gone=1\n```\n",
			"`-o repo=URL -o gone=1`", "`gone=1`", "```yaml\n    driver_opts: {repo: x, gone: x}\n```\n", "```yaml\ndriver_opts:\n  gone: x\n```\n",
			"| option | for |\n| --- | --- |\n| `repo` | x |\n| `gone` | x |\n"},
		"`volume-opt=repo=x` `warm=a,b` `--opt ref=main` `GOOS=linux`"},
	{"settings", checkSettings,
		[]string{"`GONE_SETTING`", "`GONE=1`", "```sh\ndocker plugin set helmdeck/repos GONE=1\n```\n", "| setting | for |\n| --- | --- |\n| `gone` | x |\n"},
		"`MAX_SIZE` `MIN_FREE=5%` `CAP_SYS_ADMIN` `DURATION=1h`"},
	{"make", checkMake,
		[]string{"`make gone`", "```sh\nmake gone\n```\n", "```console\n$ make install GONE=1\n```\n"},
		"`make test` `make install FORCE=1` `make bench` ```sh\nmake install # gone\n```\n"},
	{"docker repos", checkRepos,
		[]string{"`docker repos gone`", "`docker-repos gone`", "`docker repos ls --gone`", "`docker repos ls -z`", "`kubectl exec daemonset/repos -- docker-repos ls --gone`", "```sh\ndocker repos credentials gone x\n```\n", "```console\n$ docker repos df | docker repos evict --gone\n```\n"},
		"`docker repos ls --subject a` `docker repos` `docker repos credentials put NAME --scope URL <token`"},
	{"kubernetes", checkKubernetes,
		[]string{"`kubectl gone`", "```sh\nkubectl apply --gone x\n```\n", "`kubectl logs daemonset/gone`", "```sh\nfor i in 1; do\n  kubectl logs --namespace gone pod/x\ndone\n```\n",
			"```sh\nx=$(kubectl get pods --selector app=gone)\n```\n", "`helm install repos x.tgz --set-string settings.GONE=1`"},
		"`kubectl apply -f kubernetes.yaml` `kubectl exec --stdin --namespace helmdeck-repos daemonset/repos -- docker-repos ls --subject x` `kubectl` `helm rollback`"},
	{"docker", checkDocker,
		[]string{"`docker gone`", "`docker volume gone x`", "```sh\nx=$(docker gone)\n```\n"},
		"`docker volume create x` `docker run --rm x` `docker compose up` `docker plugin set`"},
	{"tests", checkTests,
		[]string{"`TestGone`", "```sh\ngo test . -run '^TestGone$'\n```\n"},
		"`TestDocs` `TestDocs/tests` `go test . -run TestDocs` TestGone"},
	{"shell", checkShell,
		[]string{"```sh\nif\n```\n", "```console\n$ echo 'a\n```\n"},
		"```sh\nif true; then\n  echo a\nfi\n```\n```console\n$ echo a\n' output\n```\n"},
}

// TestDocs checks all pages. What a command prints is checked where it is replayed: tests/tours_test.go.
func TestDocs(t *testing.T) {
	k := readKnown(t)
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(k.pages)) {
				for _, problem := range c.check(k, k.pages[name]) {
					t.Errorf("%s: %s", name, problem)
				}
			}
			for _, text := range c.wrong {
				if got := c.check(k, parsePage("control.md", text)); len(got) == 0 {
					t.Errorf("no fault was found with %q", text)
				}
			}
			if got := c.check(k, parsePage("control.md", c.right)); len(got) > 0 {
				t.Errorf("%q: %q", c.right, got)
			}
		})
	}
}

// theirs are pages of git-lfs that comments name.
var theirs = map[string]bool{"docs/api/batch.md": true, "docs/spec.md": true}

var namedPage = regexp.MustCompile(`\bdocs/[\w./-]+\.(?:md|svg)\b`)

// gonePages returns the pages that a text names and that do not exist.
func gonePages(text string) (gone []string) {
	for _, name := range namedPage.FindAllString(text, -1) {
		if _, err := os.Stat(name); err != nil && !theirs[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// TestDocsInCode checks that pages which comments and messages of Go files name exist.
func TestDocsInCode(t *testing.T) {
	if got := gonePages("// docs/design.md and docs/gone.md say so"); !slices.Equal(got, []string{"docs/gone.md"}) {
		t.Errorf("the check finds %q", got)
	}
	for _, name := range files(t) {
		if filepath.Ext(name) != ".go" || name == "docs_test.go" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, gone := range gonePages(string(data)) {
			t.Errorf("%s names %s, which does not exist", name, gone)
		}
	}
}

// unreached returns the pages of docs to which no links lead from the README.
func unreached(k map[string]page) (names []string) {
	reached, next := map[string]bool{}, []string{"README.md"}
	for len(next) > 0 {
		p := k[next[0]]
		next = next[1:]
		for _, target := range p.links() {
			file, _, _ := strings.Cut(target, "#")
			name := path.Join(path.Dir(p.name), file)
			if _, ok := k[name]; ok && !reached[name] {
				reached[name] = true
				next = append(next, name)
			}
		}
	}
	for name := range k {
		if strings.HasPrefix(name, "docs/") && !reached[name] {
			names = append(names, name)
		}
	}
	return names
}

// TestPagesAreLinked checks that links lead from the README to each page of docs.
func TestPagesAreLinked(t *testing.T) {
	k := readKnown(t).pages
	for _, name := range unreached(k) {
		t.Errorf("no links lead from the README to %s: docs/README.md is the index", name)
	}
	k["docs/new.md"] = parsePage("docs/new.md", "# New")
	if got := unreached(k); !slices.Equal(got, []string{"docs/new.md"}) {
		t.Errorf("with a page that has no link: %q", got)
	}
}

func readKnown(t *testing.T) known {
	t.Helper()
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	k := known{pages: make(map[string]page), options: make(map[string]bool), settings: make(map[string]bool),
		targets: make(map[string]bool), makefile: read("Makefile"), flags: make(map[string]string), docker: dockerCommands(t), tests: make(map[string]bool)}
	for _, p := range pages(t) {
		k.pages[p.name] = p
	}
	for _, s := range sources(t) {
		if s.path == "internal/volume/options.go" {
			for name, o := range constants(s.File) {
				if strings.HasPrefix(name, "opt") {
					k.options[o] = true
				}
			}
		}
	}
	var config struct{ Env []struct{ Name string } }
	if err := json.Unmarshal([]byte(read("config.json")), &config); err != nil {
		t.Fatal(err)
	}
	for _, e := range config.Env {
		k.settings[e.Name] = true
	}
	// Those of the driver for Kubernetes are not settings of Docker's plugin.
	_, csi, _ := strings.Cut(read("plugin/csi.go"), "csiDefaults = ")
	csi, _, _ = strings.Cut(csi, "\n")
	for _, m := range regexp.MustCompile(`"([A-Z_]+)":`).FindAllStringSubmatch(csi, -1) {
		k.settings[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(k.makefile, -1) {
		k.targets[m[1]] = true
	}
	// The page of the commands is compared with their own tree by cli/internal/commands/docs_test.go.
	for _, section := range strings.Split(read(cliPage), "\n## docker repos")[1:] {
		command, help, _ := strings.Cut(section, "\n")
		k.flags[strings.TrimSpace(command)] = help
	}
	for _, name := range files(t) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range testFunction.FindAllStringSubmatch(read(name), -1) {
				k.tests[m[1]] = true
			}
		}
	}
	if len(k.options) < 10 || len(k.settings) < 10 || len(k.targets) < 10 || len(k.flags) < 10 {
		t.Fatalf("%d options, %d settings, %d targets, %d commands", len(k.options), len(k.settings), len(k.targets), len(k.flags))
	}
	return k
}

// cliPage has the help of all commands of docker repos.
const cliPage = "docs/reference/cli.md"

// constants returns the string constants of a file.
func constants(f *ast.File) map[string]string {
	m := make(map[string]string)
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
			for i, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						m[spec.Names[i].Name] = text
					}
				}
			}
		}
		return true
	})
	return m
}

// dockerCommands asks docker for its commands. It needs no engine.
func dockerCommands(t *testing.T) map[string]bool {
	t.Helper()
	m := map[string]bool{"compose": true, "repos": true} // plugins of docker that need not be installed
	commands := func(args ...string) (names []string) {
		out, err := exec.Command("docker", append(args, "--help")...).Output()
		if err != nil {
			t.Fatalf("docker %q --help: %v", args, err)
		}
		for _, c := range regexp.MustCompile(`(?m)^  ([a-z]+)\*? {2,}`).FindAllStringSubmatch(string(out), -1) {
			names = append(names, c[1])
		}
		return names
	}
	for _, name := range commands() {
		m[name] = true
	}
	for _, group := range []string{"volume", "plugin", "container", "service", "stack", "swarm", "node", "image", "context"} {
		for _, name := range commands(group) {
			m[group+" "+name] = true
		}
	}
	if !m["volume create"] || !m["run"] {
		t.Fatalf("docker has the commands %v", m)
	}
	return m
}

func checkLinks(k known, p page) (problems []string) {
	for _, target := range p.links() {
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, hasAnchor := strings.Cut(target, "#")
		name := p.name
		if file != "" {
			name = path.Join(path.Dir(p.name), file)
		}
		other, isPage := k.pages[name]
		if name == p.name {
			other, isPage = p, true
		}
		if _, err := os.Stat(name); !isPage && errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, fmt.Sprintf("link to %s: no such file", target))
		} else if hasAnchor && (!isPage || !other.anchors[anchor]) {
			problems = append(problems, fmt.Sprintf("link to %s: no such heading", target))
		}
	}
	return problems
}
