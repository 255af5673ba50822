package checkout

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitindex"
	"github.com/helmdeck/repos/internal/lfs"
)

const (
	lfsConfigFile = ".lfsconfig"
	// maxAttributes is the largest .gitattributes that git itself reads.
	maxAttributes = 100 << 20
	// attributeBatch is the number of paths in one check-attr call, whose output must fit
	// into the limit on a command's stdout.
	attributeBatch = 2000
)

// lfsPointers returns the files that the checkout wrote that are git-lfs pointers and
// have the git-lfs attribute, and the object ID of .lfsconfig, empty if there is none. If
// no .gitattributes mentions git-lfs, it starts no process and reads no other file.
func (g runner) lfsPointers(ctx context.Context, ix *index) (pointers []lfs.Pointer, config string, err error) {
	root, err := os.OpenRoot(ix.checkout.Dir)
	if err != nil {
		return nil, "", err
	}
	defer root.Close()
	if mentioned, err := mentionsLFS(root, ix.Entries); err != nil || !mentioned {
		return nil, "", err
	}
	for _, e := range ix.Entries {
		if e.Name() == lfsConfigFile && e.IsRegular() {
			config = hex.EncodeToString(e.ID())
		}
		if !e.IsRegular() || !ix.wrote(e) {
			continue
		}
		info, err := root.Lstat(e.Name())
		if err != nil {
			return nil, "", err
		}
		if info.Size() < lfs.MinPointer || info.Size() >= lfs.MaxPointer {
			continue
		}
		data, err := root.ReadFile(e.Name())
		if err != nil {
			return nil, "", err
		}
		if p, ok := lfs.Parse(data); ok {
			p.Path = git.Text(e.Name())
			pointers = append(pointers, p)
		}
	}
	pointers, err = g.filteredByLFS(ctx, ix.checkout, pointers)
	return pointers, config, err
}

// mentionsLFS reports whether any .gitattributes of a checkout mentions the git-lfs
// filter.
func mentionsLFS(root *os.Root, entries []gitindex.Entry) (bool, error) {
	for _, e := range entries {
		if path.Base(e.Name()) != gitindex.Attributes || !e.IsRegular() {
			continue
		}
		if info, err := root.Lstat(e.Name()); err != nil {
			return false, err
		} else if info.Size() > maxAttributes {
			continue
		}
		data, err := root.ReadFile(e.Name())
		if err != nil {
			return false, err
		}
		if bytes.Contains(data, []byte("filter=lfs")) {
			return true, nil
		}
	}
	return false, nil
}

// filteredByLFS returns the files with the git-lfs attribute.
func (g runner) filteredByLFS(ctx context.Context, c Spec, files []lfs.Pointer) ([]lfs.Pointer, error) {
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
			Env: []string{"GIT_INDEX_FILE=" + filepath.Join(c.gitDir(), IndexFile)}, Stdin: stdin.String(),
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

// lfsConfigURL returns the LFS server that .lfsconfig, given by its object ID, names:
// unchecked, and empty if there is none.
func (g runner) lfsConfigURL(ctx context.Context, store, id string) (git.Text, error) {
	values, err := g.blobConfig(ctx, store, lfsConfigFile, id)
	if err != nil {
		return "", err
	}
	found := make(map[string]git.Text)
	for _, v := range values {
		found[v.key] = git.Text(v.value)
	}
	if url := found["lfs.url"]; url != "" {
		return url, nil
	}
	return found["remote.origin.lfsurl"], nil
}
