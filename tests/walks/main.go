// Command walks prints the functions that a warm Mount, a cold Mount, an Unmount with a discard and an
// eviction pass, in order. It puts a line at the start of each function of a copy of the module, and runs
// each of the four once, with real git and overlays (as root). It fails if the warm Mount passes more functions
// than its limit.
//
// A function is on the path if it, or a function that it calls, asks the system for something. A re-entry is
// the first call of a function whose package was left before.
package main

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The recorder and the test become files of the copy.
var (
	//go:embed testdata/walk.go.txt
	recorder []byte
	//go:embed testdata/walks_test.go.txt
	scenario []byte
)

const module = "github.com/helmdeck/repos"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "walks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("list the module's files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if traced(name) {
			if data, err = instrument(name, data); err != nil {
				return err
			}
		}
		if err := write(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	if err := write(filepath.Join(dir, "internal/walk/walk.go"), recorder); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "driver/walks_test.go"), scenario); err != nil {
		return err
	}
	test := exec.Command("go", "test", "-count=1", "-v", "-run", "^TestWalks$", "./driver")
	test.Dir, test.Stdout, test.Stderr = dir, os.Stdout, os.Stderr
	return test.Run()
}

func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// traced reports whether a file belongs to the plugin, not to a test or a tool.
func traced(name string) bool {
	return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && filepath.Dir(name) != "." &&
		!slices.ContainsFunc([]string{"cmd/", "tests/", "rootfs/", "internal/gitserver/"}, func(dir string) bool {
			return strings.HasPrefix(name, dir)
		})
}

// instrument returns a file whose functions report each call to package walk.
func instrument(name string, data []byte) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, data, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, decl := range slices.Backward(f.Decls) {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
			call := fmt.Sprintf("defer zzwalk.Enter(%q, %q, %q, %v)();", filepath.Dir(name), title(fn), name, asks(fn))
			data = slices.Insert(data, set.Position(fn.Body.Lbrace).Offset+1, []byte(call)...)
		}
	}
	imported := "\nimport zzwalk \"" + module + "/internal/walk\"\nvar _ = zzwalk.Enter\n"
	if len(f.Imports) > 0 { // imports stand before all else
		imported = "\nimport zzwalk \"" + module + "/internal/walk\"\n"
		data = append(data, "\nvar _ = zzwalk.Enter\n"...)
	}
	return slices.Insert(data, set.Position(f.Name.End()).Offset, []byte(imported)...), nil
}

// title names a function, with the type of its receiver.
func title(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	return t.(*ast.Ident).Name + "." + fn.Name.Name
}

// asks reports whether a function itself asks the system for something: files, mounts, processes, the
// network, locks, the database.
func asks(fn *ast.FuncDecl) (yes bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		switch x := sel.X.(type) {
		case *ast.Ident:
			pure := sel.Sel.Name == "Close" || sel.Sel.Name == "NewFile"
			yes = yes || !pure && slices.Contains([]string{"os", "unix", "syscall", "exec", "http", "net", "flock"}, x.Name)
		case *ast.SelectorExpr:
			yes = yes || x.Sel.Name == "bolt"
		}
		return true
	})
	return yes
}
