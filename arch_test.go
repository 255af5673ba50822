package repos_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/helmdeck/repos"

// rank orders the packages. A package may import only packages of a lower rank, so that packages of
// the same rank do not import each other.
var rank = map[string]int{
	"plugin": 11,
	"csi":    10, "driver": 10, "internal/admin": 10, "internal/admin/metrics": 10,
	"internal/outbound/look": 9, "internal/verbs": 9,
	"internal/workspace":  8,
	"internal/repo/ready": 7, "internal/verbs/removal": 7, "internal/workspace/mounter": 7,
	"internal/clone":    6,
	"internal/outbound": 5, "internal/repo/tree": 5, "internal/workspace/warm": 5,
	"internal/outbound/changes": 4, "internal/outbound/quarantine": 4, "internal/repo/checkout": 4,
	"internal/repo/lfs/download": 4, "internal/repo/remote": 4, "internal/workspace/upper": 4,
	"internal/admin/health": 3, "internal/admin/quota": 3, "internal/credential/handout": 3,
	"internal/credential/mint": 3, "internal/git": 3, "internal/repo/layer": 3, "internal/workspace/admission": 3,
	"internal/workspace/obstacle": 3,
	"internal/credential":         2, "internal/git/giterror": 2, "internal/git/githttp": 2, "internal/git/hostnames": 2,
	"internal/meta": 2, "internal/repo/lfs": 2, "internal/workspace/cache": 2, "internal/workspace/replica": 2,
	"internal/admin/audit": 1, "internal/admin/journal": 1, "internal/disk/project": 1, "internal/disk/trash": 1,
	"internal/disk/upfile": 1, "internal/git/gitref": 1, "internal/git/gitssh": 1, "internal/overlay": 1,
	"internal/work": 1, "janitor": 1,
	"api": 0, "internal/disk": 0, "internal/disk/durable": 0, "internal/disk/memory": 0, "internal/escape": 0,
	"internal/failpoint": 0, "internal/git/githelper": 0, "internal/git/gitindex": 0, "internal/git/gitprogress": 0,
	"internal/git/guard": 0, "internal/git/sandbox": 0, "internal/intake": 0, "internal/origin": 0, "internal/place": 0,
	"internal/volume": 0, "internal/work/keylock": 0, "internal/work/phase": 0, "internal/workspace/backlog": 0,
	"internal/workspace/rota": 0,
}

// outside reports whether a package is a tool, a test or of another module, not part of the plugin.
func outside(dir string) bool {
	top, _, _ := strings.Cut(dir, "/")
	return top == "cmd" || top == "cli" || top == "release" || top == "tests" || top == "rootfs" || strings.HasPrefix(dir+"/", "internal/git/gitserver/")
}

// source is one Go file of the module that is not a test.
type source struct {
	path, dir string
	*ast.File
}

// sources parses every Go file that is not a test.
func sources(t *testing.T) []source {
	t.Helper()
	var list []source
	set := token.NewFileSet()
	for _, name := range files(t) {
		if filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, source{path: name, dir: path.Dir(name), File: f})
	}
	if len(list) == 0 {
		t.Fatal("no sources")
	}
	return list
}

// files lists the project's files by slash-separated path.
func files(t *testing.T) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "build"):
			return filepath.SkipDir
		case d.Type().IsRegular():
			list = append(list, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// imports returns the import paths of a file by their names in the file.
func (s source) imports() map[string]string {
	m := make(map[string]string)
	for _, i := range s.Imports {
		full, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			panic(err) // the parser accepted it
		}
		name := path.Base(full)
		if i.Name != nil {
			name = i.Name.Name
		}
		m[name] = full
	}
	return m
}

func TestImportsPointOneWay(t *testing.T) {
	for _, s := range sources(t) {
		from, known := rank[s.dir]
		if !known && !outside(s.dir) {
			t.Errorf("%s: package %q has no rank", s.path, s.dir)
			continue
		}
		for _, full := range s.imports() {
			to, ours := strings.CutPrefix(full, module+"/")
			switch {
			case !ours || outside(s.dir):
			case outside(to):
				t.Errorf("%s imports %s, which is for tests and tools", s.path, to)
			case rank[to] >= from:
				t.Errorf("%s imports %s, which has no lower rank", s.path, to)
			}
		}
	}
}

// TestJanitorImportsOnlySizes checks that the janitor can plan for anything that takes
// space, because it knows no other package of this module than that of the sizes.
func TestJanitorImportsOnlySizes(t *testing.T) {
	for _, s := range sources(t) {
		for _, full := range s.imports() {
			if s.dir == "janitor" && strings.HasPrefix(full, module+"/") && full != module+"/internal/disk" {
				t.Errorf("%s imports %s", s.path, full)
			}
		}
	}
}

// TestOnlyGitExecutes checks that only packages git and sandbox execute programs, and that only git
// imports sandbox.
func TestOnlyGitExecutes(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir == "internal/git" || outside(s.dir) {
			continue
		}
		for _, full := range s.imports() {
			if full == module+"/internal/git/sandbox" || full == "os/exec" && s.dir != "internal/git/sandbox" {
				t.Errorf("%s imports %s", s.path, full)
			}
		}
		s.calls(func(in, from, name string) {
			if slices.Contains([]string{"StartProcess", "ForkExec", "Exec"}, name) && from != "" {
				t.Errorf("%s: %s calls %s.%s", s.path, in, from, name)
			}
		})
	}
}

func TestOnlyOverlayMounts(t *testing.T) {
	mounting := []string{
		"Mount", "Unmount", "MoveMount", "Fsmount", "Fsopen", "Fspick", "OpenTree", "MountSetattr", "PivotRoot",
		"FsconfigCreate", "FsconfigReconfigure",
	}
	for _, s := range sources(t) {
		if s.dir == "internal/overlay" || outside(s.dir) {
			continue
		}
		s.calls(func(in, from, name string) {
			if (from == "golang.org/x/sys/unix" || from == "syscall") && slices.Contains(mounting, name) {
				t.Errorf("%s: %s calls %s.%s", s.path, in, from, name)
			}
		})
	}
}

// TestOnlyDurableRenames checks that only package durable renames. It allows two other renames that
// need no durability: of a damaged database, and in the probe of overlayfs.
func TestOnlyDurableRenames(t *testing.T) {
	for _, s := range sources(t) {
		if s.dir == "internal/disk/durable" || outside(s.dir) {
			continue
		}
		s.calls(func(in, from, name string) {
			switch {
			case !strings.HasPrefix(name, "Rename"), from == module+"/internal/disk/durable":
			case s.path == "internal/overlay/probe.go":
			case s.dir == "internal/meta" && in == "SetAside":
			default:
				t.Errorf("%s: %s calls %s.%s", s.path, in, from, name)
			}
		})
	}
}

// TestLogLinesHaveAContext checks that the packages below plugin give each line of the log a
// context, from which package origin takes the request.
func TestLogLinesHaveAContext(t *testing.T) {
	without := []string{ // the functions that have none
		"internal/clone/manager.go get", "internal/repo/ready/refresh.go call", // the report of a panic
	}
	for _, s := range sources(t) {
		if s.dir == "plugin" || outside(s.dir) {
			continue
		}
		for _, decl := range s.Decls {
			in := s.path
			if f, ok := decl.(*ast.FuncDecl); ok {
				in += " " + f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				method, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				log, ok := method.X.(*ast.SelectorExpr)
				if ok && log.Sel.Name == "Log" && !slices.Contains([]string{"WithContext", "IsLevelEnabled"}, method.Sel.Name) &&
					!slices.Contains(without, in) {
					t.Errorf("%s: Log.%s without a context", in, method.Sel.Name)
				}
				return true
			})
		}
	}
}

// TestOnlyTheEdgesAudit checks that the core knows nothing of the audit log.
func TestOnlyTheEdgesAudit(t *testing.T) {
	for _, s := range sources(t) {
		for _, full := range s.imports() {
			if full == module+"/internal/admin/audit" && s.dir != "plugin" && s.dir != "internal/admin" {
				t.Errorf("%s imports %s", s.path, full)
			}
		}
	}
}

// calls reports each selector in the file, called or not, with the function that it is
// in: from is the import path for a package's name, and empty for a field or method.
func (s source) calls(report func(in, from, name string)) {
	imported := s.imports()
	for _, decl := range s.Decls {
		in := "a variable"
		if f, ok := decl.(*ast.FuncDecl); ok {
			in = f.Name.Name
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			from := ""
			if x, ok := sel.X.(*ast.Ident); ok {
				from = imported[x.Name]
			}
			report(in, from, sel.Sel.Name)
			return true
		})
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	docs := make(map[string]string)
	for _, s := range sources(t) {
		docs[s.dir] += s.Doc.Text()
		if name := s.Name.Name; name != "main" && s.Doc != nil && !strings.HasPrefix(s.Doc.Text(), "Package "+name+" ") {
			t.Errorf("%s: the package doc does not begin with %q", s.path, "Package "+name)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(docs)) {
		if docs[dir] == "" {
			t.Errorf("%s: no package doc", dir)
		}
	}
}

// TestDependenciesAreDocumented checks that the tables in docs/design.md have exactly the
// modules that each go.mod requires directly, without github.com/.
func TestDependenciesAreDocumented(t *testing.T) {
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for file, title := range map[string]string{"go.mod": "module", "cli/go.mod": "module of the command", "release/go.mod": "module of the release", "tests/csi/go.mod": "module of the driver's tests", "tests/libraries/go.mod": "module of the libraries' tests"} {
		var want, got []string
		_, direct, _ := strings.Cut(read(file), "require (\n")
		direct, _, _ = strings.Cut(direct, "\n)")
		for line := range strings.Lines(direct) {
			if name := strings.Fields(line)[0]; name != module {
				want = append(want, strings.TrimPrefix(name, "github.com/"))
			}
		}
		_, table, _ := strings.Cut(read("docs/design.md"), "| "+title+" | for |\n| --- | --- |\n")
		table, _, _ = strings.Cut(table, "\n\n")
		for row := range strings.Lines(table) {
			got = append(got, strings.Split(strings.TrimSpace(strings.Split(row, "|")[1]), ", ")...)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("docs/design.md has\n%q, %s has\n%q", got, file, want)
		}
	}
}

// TestNoRegistryIsNamed checks that no file names a package registry, because that is
// configured on the machine.
func TestNoRegistryIsNamed(t *testing.T) {
	var hosts []string
	for _, words := range [][]string{ // joined, because this file is checked too
		{"proxy", "golang", "org"}, {"sum", "golang", "org"}, {"debian", "org"}, {"npmjs", "org"}, {"npmjs", "com"},
		{"yarnpkg", "com"}, {"pypi", "org"}, {"pythonhosted", "org"}, {"crates", "io"}, {"rubygems", "org"},
		{"maven", "org"}, {"maven", "apache", "org"}, {"gradle", "org"}, {"packagist", "org"}, {"nuget", "org"},
		{"docker", "io"}, {"ghcr", "io"}, {"quay", "io"}, {"gcr", "io"},
	} {
		hosts = append(hosts, strings.Join(words, "."))
	}
	for _, name := range files(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(data) {
			continue
		}
		for _, host := range hosts {
			if at := strings.Index(string(data), host); at >= 0 {
				t.Errorf("%s:%d names %s", name, 1+strings.Count(string(data[:at]), "\n"), host)
			}
		}
	}
}

// TestOnlyKubernetesLinksGRPC checks that the plugin for Docker does without grpc-go, with which a checkout's process
// starts later. Control: the program for Kubernetes has it.
func TestOnlyKubernetesLinksGRPC(t *testing.T) {
	for tags, want := range map[string]bool{"": false, "kubernetes": true} {
		out, err := exec.Command("go", "list", "-deps", "-tags", tags, "./plugin").Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(out), "google.golang.org/grpc"); got != want {
			t.Errorf("tags %q: grpc-go is linked: %v", tags, got)
		}
	}
}
