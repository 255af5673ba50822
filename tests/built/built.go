// Package built tells whether what make has built below build/ is of the sources that are there now. A test that runs a
// program from there would otherwise test an old one and pass.
//
// Beside each output, make writes a file that ends in .sources, with hashes of what the output is made of: the Go files of
// this repository that are linked, what they embed, and go.mod and go.sum; for the plugin also config.json and the recipe
// of the root filesystem. Times, tests, documentation, the version stamp and Go's own version do not count.
package built

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const module = "github.com/helmdeck/repos"

// The outputs of make, by their names below build/.
const (
	Program = "helmdeck-repos"
	Command = "docker-repos"
	Plugin  = "plugin"
)

// Rootfs is what the plugin has besides its program. It is no output of its own.
const Rootfs = "rootfs"

// Check returns an error that says what to run if an output does not exist or is of other sources. The working directory
// must be in the repository.
func Check(outputs ...string) error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	return check(root, outputs)
}

func check(root string, outputs []string) error {
	for _, output := range outputs {
		want, err := Sources(root, output)
		if err != nil {
			return err
		}
		path := filepath.Join(root, "build", output)
		_, err = os.Stat(path)
		got, readErr := os.ReadFile(path + ".sources")
		if errors.Join(err, readErr) != nil || string(got) != want {
			return fmt.Errorf("build/%s is missing or made of other sources: run make plugin cli", output)
		}
	}
	return nil
}

// Sources returns what the file build/OUTPUT.sources has if the output is made of the sources below root.
func Sources(root, output string) (string, error) {
	s := sources{root: root, packages: make(map[string]bool)}
	var err error
	switch output {
	case Program:
		s.add("go.mod", "go.sum")
		err = s.link("plugin")
	case Command:
		s.add("go.mod", "cli/go.mod", "cli/go.sum")
		err = s.link("cli")
	case Rootfs:
		s.add("config.json", "rootfs/assemble", "rootfs/build", "rootfs/apt.sh", "rootfs/mirror.sh", "rootfs/needed/main.go", "rootfs/lock."+runtime.GOARCH)
	case Plugin:
		program, programErr := Sources(root, Program)
		rootfs, rootfsErr := Sources(root, Rootfs)
		return program + rootfs, errors.Join(programErr, rootfsErr)
	default:
		err = fmt.Errorf("no output has the name %q", output)
	}
	if err != nil {
		return "", err
	}
	return s.sum()
}

// sources collects files.
type sources struct {
	root     string
	files    []string        // relative to root
	packages map[string]bool // the directories of the packages that were linked
}

func (s *sources) add(files ...string) { s.files = append(s.files, files...) }

// link adds the files of the package in a directory, and of the packages of this repository that it imports. The module
// of the command is below the path of the main module, so that an import path always tells the directory.
func (s *sources) link(dir string) error {
	if s.packages[dir] {
		return nil
	}
	s.packages[dir] = true
	context := build.Default
	context.GOOS, context.GOARCH, context.CgoEnabled, context.BuildTags = "linux", runtime.GOARCH, false, nil
	p, err := context.ImportDir(filepath.Join(s.root, dir), 0)
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(p.GoFiles, p.SFiles, p.EmbedPatterns) { // all patterns are names of files
		s.add(filepath.Join(dir, name))
	}
	for _, path := range p.Imports {
		if below, ours := strings.CutPrefix(path, module+"/"); ours {
			if err := s.link(below); err != nil {
				return err
			}
		}
	}
	return nil
}

// sum returns a line with a hash of all names and contents.
func (s *sources) sum() (string, error) {
	slices.Sort(s.files)
	all := sha256.New()
	for _, name := range s.files {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(all, "%s %d\n", name, len(data))
		_, _ = all.Write(data)
	}
	return hex.EncodeToString(all.Sum(nil)) + "\n", nil
}

// findRoot returns the root of the repository that the working directory is in.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module "+module+"\n") {
			return dir, nil
		}
	}
	return "", errors.New("the working directory is outside of the repository")
}
