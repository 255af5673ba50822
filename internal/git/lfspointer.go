package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/gitindex"
)

// LFSPointer is a file of a checkout whose content git-lfs keeps elsewhere.
type LFSPointer struct {
	Path string
	OID  string // SHA-256 of the content, in hex
	Size int64  // of the content, bytes
}

const (
	lfsConfigFile = ".lfsconfig"
	// A pointer has less than maxPointer bytes, line ends and blank lines included
	// (git-lfs, docs/spec.md): of more, git-lfs reads the first, and takes the rest for
	// another request. Its three lines have at least minPointer.
	maxPointer, minPointer = 1024, 100
	// maxAttributes is the largest .gitattributes that git itself reads.
	maxAttributes = 100 << 20
	// attributeBatch is how many paths are asked for at once: the answer has to
	// fit into what is read of a command.
	attributeBatch = 2000
)

// LFSPointers returns the files that a checkout has written that are git-lfs
// pointers and for which attributes ask for git-lfs, and the object ID of the
// .lfsconfig, empty if there is none. In a checkout whose .gitattributes don't
// mention git-lfs that starts no process and reads no other file.
func (g *Git) LFSPointers(ctx context.Context, ix *Index) (pointers []LFSPointer, config string, err error) {
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
		if info.Size() < minPointer || info.Size() >= maxPointer {
			continue
		}
		data, err := root.ReadFile(e.Name())
		if err != nil {
			return nil, "", err
		}
		if p, ok := parsePointer(data); ok {
			p.Path = e.Name()
			pointers = append(pointers, p)
		}
	}
	pointers, err = g.filteredByLFS(ctx, ix.checkout, pointers)
	return pointers, config, err
}

// mentionsLFS reports whether any .gitattributes of a checkout names the filter.
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

// filteredByLFS returns those of the files for which attributes ask for git-lfs.
func (g *Git) filteredByLFS(ctx context.Context, c Checkout, files []LFSPointer) ([]LFSPointer, error) {
	var filtered []LFSPointer
	for len(files) > 0 {
		batch := files[:min(len(files), attributeBatch)]
		files = files[len(batch):]
		var stdin strings.Builder
		for _, f := range batch {
			stdin.WriteString(f.Path + "\x00")
		}
		out, err := g.run(ctx, command{
			op: "read the attributes of " + c.Commit,
			args: []string{
				"--git-dir=" + c.Store, "--work-tree=" + c.Dir, "-c", "core.bare=false",
				"check-attr", "-z", "--stdin", "filter",
			},
			env: []string{"GIT_INDEX_FILE=" + filepath.Join(c.gitDir(), IndexFile)}, stdin: stdin.String(),
			dir: c.Dir, uid: c.UID, gid: c.GID, read: []string{c.Store, c.Dir, c.gitDir()},
		})
		if err != nil {
			return nil, err
		}
		fields := strings.Split(string(out), "\x00") // path, "filter", value
		if len(fields) != 3*len(batch)+1 {
			return nil, fmt.Errorf("check-attr: %d fields for %d paths", len(fields), len(batch))
		}
		for i, f := range batch {
			if fields[3*i] == f.Path && fields[3*i+2] == "lfs" {
				filtered = append(filtered, f)
			}
		}
	}
	return filtered, nil
}

// pointerVersions are of pointers; git-lfs still reads the old ones.
var pointerVersions = []string{
	"https://git-lfs.github.com/spec/v1", "https://hawser.github.com/spec/v1", "http://git-media.io/v/2",
}

// pointerKeys begin the lines of a pointer, in this order.
var pointerKeys = []string{"version", "oid", "size"}

// parsePointer reads a pointer as git-lfs's smudge filter does, which is given the
// file as it is in the work tree, after all conversions of git's own. So its lines
// may end with CRLF, there may be blank ones, and white space around all of it. A
// file that is not a pointer is not an error: git-lfs leaves it as it is. This does
// so also with pointers that have extensions, which are programs.
func parsePointer(data []byte) (p LFSPointer, ok bool) {
	values := make([]string, 0, len(pointerKeys))
	for line := range strings.SplitSeq(string(bytes.TrimSpace(data)), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		key, value, _ := strings.Cut(line, " ")
		if len(values) == len(pointerKeys) || key != pointerKeys[len(values)] {
			return LFSPointer{}, false
		}
		values = append(values, value)
	}
	if len(values) != len(pointerKeys) || !slices.Contains(pointerVersions, values[0]) {
		return LFSPointer{}, false
	}
	oid, ok := strings.CutPrefix(values[1], "sha256:")
	size, err := strconv.ParseInt(values[2], 10, 64)
	if !ok || err != nil || size < 0 || len(oid) != 64 || !isObjectID(oid) {
		return LFSPointer{}, false
	}
	return LFSPointer{OID: oid, Size: size}, true
}

// LFSConfigURL returns what the repository's .lfsconfig, by its object ID, names
// as its LFS server: unchecked, and empty if it names none.
func (g *Git) LFSConfigURL(ctx context.Context, store, id string) (string, error) {
	values, err := g.blobConfig(ctx, store, lfsConfigFile, id)
	if err != nil {
		return "", err
	}
	found := make(map[string]string)
	for _, v := range values {
		found[v.key] = v.value
	}
	if url := found["lfs.url"]; url != "" {
		return url, nil
	}
	return found["remote.origin.lfsurl"], nil
}

// LFSObject is where a storage keeps an object.
func LFSObject(storage, oid string) string { return filepath.Join(storage, oid[:2], oid) }

// HasLFSObject reports whether a storage has an object in full. A pointer of no bytes
// needs none, whatever its ID.
func HasLFSObject(storage string, p LFSPointer) (bool, error) {
	if p.Size == 0 {
		return true, nil
	}
	info, err := os.Lstat(LFSObject(storage, p.OID))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Size() == p.Size, err
}

// fillFiles writes the contents of pointers, all of which the storage has, into the
// files of a checkout, which keep their owner and mode.
func fillFiles(c Checkout, storage string, pointers []LFSPointer) error {
	root, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, p := range pointers {
		if err := fillLFS(root, storage, p); err != nil {
			return fmt.Errorf("write %q from LFS object %s: %w", p.Path, p.OID, err)
		}
	}
	return nil
}

func fillLFS(root *os.Root, storage string, p LFSPointer) error {
	if p.Size == 0 {
		return root.WriteFile(p.Path, nil, 0)
	}
	from, err := os.Open(LFSObject(storage, p.OID))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.OpenFile(p.Path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	// The kernel copies, and where the filesystem can, shares the blocks.
	n, err := to.ReadFrom(from)
	if err == nil && n != p.Size {
		err = fmt.Errorf("%d bytes, want %d", n, p.Size)
	}
	return errors.Join(err, to.Close())
}
