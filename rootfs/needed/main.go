// Command needed prints the shared libraries that ELF programs load, by their paths below a root
// directory. It reads them and runs nothing, so the programs may be of another architecture.
//
//	needed ROOT LIBDIR FILE...
package main

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: needed ROOT LIBDIR FILE...")
		os.Exit(2)
	}
	libraries, err := closure(os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "needed:", err)
		os.Exit(1)
	}
	for _, library := range libraries {
		fmt.Println(library)
	}
}

// closure returns the loaders of programs, and the libraries that they, and these libraries, name.
// libdir is the directory of libraries below root.
func closure(root, libdir string, programs []string) ([]string, error) {
	found := make(map[string]bool)
	loaders := make(map[string]bool) // by base name; libc names its loader, which is there already
	for queue := slices.Clone(programs); len(queue) > 0; queue = queue[1:] {
		loader, names, err := read(filepath.Join(root, queue[0]))
		if err != nil {
			return nil, err
		}
		if loader != "" {
			// Its directory, such as /lib64, is a link to the same one in usr.
			found[path.Join("usr", loader)] = true
			loaders[path.Base(loader)] = true
		}
		for _, name := range names {
			library := path.Join(libdir, name)
			if found[library] || loaders[name] {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, library)); err != nil {
				return nil, fmt.Errorf("%s needs %s: %w", queue[0], name, err)
			}
			found[library] = true
			queue = append(queue, library)
		}
	}
	var list []string
	for library := range found {
		list = append(list, library)
	}
	slices.Sort(list)
	return list, nil
}

// read returns the loader that an ELF file names, if it is a program, and the names of the libraries
// that it needs.
func read(name string) (loader string, libraries []string, err error) {
	f, err := elf.Open(name)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text, err := io.ReadAll(p.Open())
		if err != nil {
			return "", nil, fmt.Errorf("%s: %w", name, err)
		}
		loader = strings.TrimRight(string(text), "\x00")
	}
	if libraries, err = f.ImportedLibraries(); err != nil {
		return "", nil, fmt.Errorf("%s: %w", name, err)
	}
	return loader, libraries, nil
}
