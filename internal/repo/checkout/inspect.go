package checkout

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

const (
	lfsConfigFile = ".lfsconfig"
	modulesFile   = ".gitmodules" // lists the submodules of a commit
	// maxAttributes is the largest .gitattributes that git itself reads.
	maxAttributes = 100 << 20
	// attributeBatch is the number of paths in one check-attr call, whose output must fit
	// into the limit on a command's stdout.
	attributeBatch = 2000
)

// inspect returns the description of a checkout.
func (g runner) inspect(ctx context.Context, ix *index) (f Found, err error) {
	c := ix.checkout
	f.Unencoded = ix.unencoded
	f.Tracked = c.Tracks != "" && ix.Has(c.Tracks)
	if !c.NoLFS {
		if f.Pointers, f.LFSURL, err = g.lfsPointers(ctx, ix); err != nil {
			return f, err
		}
	}
	if c.Submodules {
		if f.Gitlinks, f.Submodules, err = g.submodules(ctx, ix); err != nil {
			return f, err
		}
	}
	if err := f.check(c.SizeFactor); err != nil {
		return Found{}, fmt.Errorf("the commit %s: %w", c.Commit, err)
	}
	return f, nil
}

// lfsPointers returns the files that the checkout wrote, are git-lfs pointers and have the
// git-lfs attribute. If there are any, it also returns the LFS server that .lfsconfig
// names, unchecked; empty if it names none. If no .gitattributes mentions git-lfs, it
// starts no process and reads no other file.
func (g runner) lfsPointers(ctx context.Context, ix *index) (pointers []lfs.Pointer, url gitref.Text, err error) {
	c, config := ix.checkout, ""
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	if mentioned, err := ix.mentionsLFS(); err != nil || !mentioned {
		return nil, "", err
	}
	for _, e := range ix.Entries {
		if e.Name() == lfsConfigFile && e.IsRegular() {
			config = hex.EncodeToString(e.ID())
		}
		if !e.IsRegular() || !ix.wrote(e) {
			continue
		}
		data, err := readFile(root, e.Name(), lfs.MinPointer, lfs.MaxPointer-1)
		if err != nil {
			return nil, "", err
		}
		if p, ok := lfs.Parse(data); ok {
			p.Path = gitref.Text(e.Name())
			pointers = append(pointers, p)
		}
	}
	pointers, err = g.filteredByLFS(ctx, ix, pointers)
	if err != nil || config == "" || len(pointers) == 0 {
		return pointers, "", err
	}
	values := make(map[string]string)
	err = g.blobConfig(ctx, c.Store, lfsConfigFile, config, func(key, value string) { values[key] = value })
	return pointers, gitref.Text(cmp.Or(values["lfs.url"], values["remote.origin.lfsurl"])), err
}

// mentionsLFS reports whether any .gitattributes of a checkout mentions the git-lfs
// filter.
func (ix *index) mentionsLFS() (bool, error) {
	c := ix.checkout
	dir := c.Dir
	if ix.moved { // all are in the lowest layer, because moves do not change any
		dir = c.Below[len(c.Below)-1]
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	searched := make(map[string]bool) // by object ID
	attributes, _ := ix.Attributes()
	for _, e := range attributes {
		if id := string(e.ID()); searched[id] {
			continue
		} else {
			searched[id] = true
		}
		data, err := readFile(root, e.Name(), 0, maxAttributes)
		if err != nil || lfs.Mentioned(data) {
			return err == nil, err
		}
	}
	return false, nil
}

// readFile reads a file. It returns nil if the file has less than minSize or more than
// maxSize bytes.
func readFile(root *os.Root, name string, minSize, maxSize int64) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil || info.Size() < minSize || info.Size() > maxSize {
		return nil, err
	}
	return root.ReadFile(name)
}

// filteredByLFS returns the files with the git-lfs attribute.
func (g runner) filteredByLFS(ctx context.Context, ix *index, files []lfs.Pointer) ([]lfs.Pointer, error) {
	c := ix.checkout
	// After a move, git reads the attributes in the index, because the layer does not have them.
	indexFile := filepath.Join(c.gitDir(), IndexFile)
	if ix.moved {
		indexFile = c.baseIndex()
	}
	var filtered []lfs.Pointer
	for len(files) > 0 {
		batch := files[:min(len(files), attributeBatch)]
		files = files[len(batch):]
		var stdin strings.Builder
		for _, f := range batch {
			stdin.WriteString(string(f.Path) + "\x00")
		}
		out, err := g.Run(ctx, git.Command{
			Op: "read the attributes of " + c.Commit,
			Args: []string{
				"--git-dir=" + c.Store, "--work-tree=" + c.Dir, "-c", "core.bare=false",
				"check-attr", "-z", "--stdin", "filter",
			},
			Env: []string{"GIT_INDEX_FILE=" + indexFile}, Stdin: stdin.String(),
			Dir: c.Dir, UID: c.UID, GID: c.GID, Read: []string{c.Store, c.Dir, c.gitDir()},
		})
		if err != nil {
			return nil, err
		}
		fields := strings.Split(string(out), "\x00") // path, "filter", value
		if len(fields) != 3*len(batch)+1 {
			return nil, fmt.Errorf("check-attr: %d fields for %d paths", len(fields), len(batch))
		}
		for i, f := range batch {
			if fields[3*i] == string(f.Path) && fields[3*i+2] == "lfs" {
				filtered = append(filtered, f)
			}
		}
	}
	return filtered, nil
}

// Gitlink is a submodule's path and commit in a checkout.
type Gitlink struct {
	Path   gitref.Text
	Commit string
}

// Submodule is a section of .gitmodules, unchecked.
type Submodule struct {
	Name, Path, URL gitref.Text
	// Update is the strategy of `git submodule update`, such as "none".
	Update gitref.Text
}

// submodules returns the submodules whose directories the checkout made and, if there are
// any, the sections of its .gitmodules in the order of the file. As in git, the first of
// repeated values counts.
func (g runner) submodules(ctx context.Context, ix *index) (links []Gitlink, list []Submodule, err error) {
	modules := "" // object ID
	for _, e := range ix.Entries {
		switch {
		case e.IsSubmodule():
			links = append(links, Gitlink{Path: gitref.Text(e.Name()), Commit: hex.EncodeToString(e.ID())})
		case e.Name() == modulesFile && e.IsBlob():
			modules = hex.EncodeToString(e.ID())
		}
	}
	if modules == "" || len(links) == 0 {
		return links, nil, nil
	}
	index := make(map[string]int)
	err = g.blobConfig(ctx, ix.checkout.Store, modulesFile, modules, func(key, value string) {
		rest, ok := strings.CutPrefix(key, "submodule.")
		dot := strings.LastIndexByte(rest, '.')
		if !ok || dot < 0 {
			return
		}
		name := rest[:dot]
		i, ok := index[name]
		if !ok {
			i = len(list)
			index[name] = i
			list = append(list, Submodule{Name: gitref.Text(name)})
		}
		for variable, field := range map[string]*gitref.Text{"path": &list[i].Path, "url": &list[i].URL, "update": &list[i].Update} {
			if rest[dot+1:] == variable && *field == "" {
				*field = gitref.Text(value)
			}
		}
	})
	return links, list, err
}

// blobConfig calls f with each variable of a configuration file in the store, without
// includes. Section and variable name of a key are in lower case.
func (g runner) blobConfig(ctx context.Context, store, name, id string, f func(key, value string)) error {
	out, err := g.Run(ctx, git.Command{
		Op:   "read " + name,
		Args: []string{"--git-dir=.", "config", "--blob=" + id, "--list", "-z", "--no-includes"},
		Dir:  store, Read: []string{store},
	})
	if err != nil {
		return err
	}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		if key, value, _ := strings.Cut(string(entry), "\n"); key != "" {
			f(key, value)
		}
	}
	return nil
}
