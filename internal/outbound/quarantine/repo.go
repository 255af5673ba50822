package quarantine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/volume"
)

const (
	maxRefFile = 4 << 10  // a name of 1 KiB, and more
	maxPacked  = 32 << 20 // bytes of packed-refs, besides what the layer's may become
	maxLine    = 4 << 10  // of packed-refs
	// maxBranches bounds the branches, maxBranchBytes their names (twice that with those that are packed), and
	// maxEntries the files and directories below refs/heads, also those that are no branches.
	maxBranches    = 20_000
	maxBranchBytes = 2 << 20
	maxEntries     = 50_000
	maxLevels      = 32 // of directories below refs/heads
	maxSymbolic    = 5  // as in git
	maxScans       = 8  // of packed-refs, for symbolic refs to others than branches
)

const heads = "refs/heads/"

// Branch is a branch of a workspace.
type Branch struct {
	Name string // without refs/heads/
	ID   string // of its commit, full
}

// Repo is the .git of a workspace, as a container sees it. The container may change it at any
// time. It is not safe for concurrent use.
type Repo struct {
	ctx   context.Context // that of OpenRepo
	dir   *os.File
	layer layer
	heads map[string]string // the branches in packed-refs: full names and IDs; nil after Forget
	scans int               // of packed-refs, for other refs

	upstream      *Upstream // nil without Follow
	upstreamNames []string
}

// OpenRepo opens the .git in root, the top of a workspace as a container sees it, whose git
// layer has its .git at the path layer. Nothing is read from it after the end of ctx. Close it. The
// caller keeps the layer from being removed.
func OpenRepo(ctx context.Context, root *os.File, layer string) (*Repo, error) {
	l, err := readLayer(layer)
	if err != nil {
		return nil, err
	}
	dir, err := openDir(root, ".git")
	if err != nil {
		return nil, refuse(Unusable, ".git of the workspace is not a directory (%v): the repository that the workspace began with is no longer there", err)
	}
	r := &Repo{ctx: ctx, dir: dir, layer: l, heads: make(map[string]string)}
	if err := r.open(); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return r, nil
}

// Forget frees the memory of the branches when all that matter are known: Take may take long, and so
// may a remote. No ref can be looked up afterwards.
func (r *Repo) Forget() { r.heads = nil }

// Close closes the directory.
func (r *Repo) Close() error { return r.dir.Close() }

// open reads packed-refs, and refuses refs in files of another format.
func (r *Repo) open() error {
	switch f, err := disk.Open(r.dir, "reftable", 0); {
	case err == nil:
		f.Close()
		return refuse(Unusable, "the workspace's refs are in the format reftable, which can't be read here: "+
			"convert them in the container (git refs migrate --ref-format=files)")
	case !errors.Is(err, fs.ErrNotExist):
		return strange("reftable", "a directory", err)
	}
	size := 0 // of the names
	err := r.eachPacked(func(id, ref []byte) error {
		if !bytes.HasPrefix(ref, []byte(heads)) {
			return nil
		}
		size += len(ref)
		if r.heads[string(ref)] = string(id); len(r.heads) > maxBranches || size > maxBranchBytes {
			return tooManyBranches()
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// maxPacked returns how many bytes packed-refs may have: git in the container may write that of the git layer with other
// refs, and with longer names.
func (r *Repo) maxPacked() int64 { return maxPacked + 2*r.layer.packed }

// eachPacked calls f for each ref in packed-refs, as a stream: the file may have maxPacked bytes, and
// many workspaces may be looked at. Other lines, such as comments, are passed over. An error of f
// ends it. The error of a file that is not there is fs.ErrNotExist.
func (r *Repo) eachPacked(f func(id, ref []byte) error) error {
	const name = "packed-refs"
	file, err := openFile(r.dir, name)
	if err != nil {
		return err
	}
	defer file.Close()
	tooLarge := refuse(TooLarge, "the file %q in .git of the workspace has more than %d bytes", name, r.maxPacked())
	if file.size() > r.maxPacked() {
		return tooLarge
	}
	in := &io.LimitedReader{R: file, N: r.maxPacked() + 1}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 2*maxLine), 2*maxLine)
	for lines.Scan() {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		id, ref, ok := bytes.Cut(bytes.TrimRight(lines.Bytes(), "\r"), []byte(" "))
		if !ok || len(ref) > maxLine || !gitref.IsObjectID(string(id)) || gitref.Format(string(id)) != r.layer.format {
			continue
		}
		if err := f(id, ref); err != nil {
			return err
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return refuse(TooLarge, "the file %q in .git of the workspace has a line of more than %d bytes", name, 2*maxLine)
	case err != nil:
		return strange(name, "a file", err)
	case in.N == 0:
		return tooLarge // it grew
	}
	return nil
}

// Head returns the branch that HEAD is at, with an empty ID if it has no commit, or, if HEAD is
// detached, the empty name and the commit.
func (r *Repo) Head() (Branch, error) {
	head, err := r.head("HEAD")
	if errors.Is(err, fs.ErrNotExist) {
		err = unreadable("HEAD", err)
	}
	return head, err
}

// head reads the file of a HEAD. The error of one that is not there is fs.ErrNotExist.
func (r *Repo) head(file string) (Branch, error) {
	data, err := readFile(r.dir, file, maxRefFile)
	if errors.Is(err, fs.ErrNotExist) {
		return Branch{}, err
	}
	if err != nil {
		return Branch{}, unreadable(file, err)
	}
	id, target, err := r.parse(file, data)
	if err != nil || id != "" {
		return Branch{ID: id}, err
	}
	name, ok := strings.CutPrefix(target, heads)
	if !ok {
		return Branch{}, refuse(Unusable, "%s of the workspace is at %q, which is not a branch: name a branch", printable(file), target)
	}
	id, err = r.resolve(target, 1)
	if errors.Is(err, fs.ErrNotExist) {
		return Branch{Name: name}, nil
	}
	return Branch{Name: name, ID: id}, err
}

// Branch returns a branch by its name. The empty name means the one that HEAD is at, and HEAD
// the commit of HEAD, even if it is detached.
func (r *Repo) Branch(name string) (Branch, error) {
	if name == "" || name == "HEAD" {
		head, err := r.Head()
		switch {
		case err != nil:
			return Branch{}, err
		case head.ID == "":
			return Branch{}, refuse(Missing, "branch %q of the workspace has no commit yet%s", head.Name, r.others())
		case head.Name == "" && name == "":
			return Branch{}, refuse(Invalid, "HEAD of the workspace is detached at %s: name a branch, or HEAD with the branch of the remote%s", head.ID, r.others())
		}
		return head, nil
	}
	if err := checkBranch(name); err != nil {
		return Branch{}, err
	}
	id, err := r.resolve(heads+name, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Branch{}, refuse(Missing, "the workspace has no branch %q%s", name, r.others())
	}
	return Branch{Name: name, ID: id}, err
}

// others lists some branches for an error.
func (r *Repo) others() string {
	const shown = 10
	names, err := r.names()
	switch {
	case err != nil:
		return ""
	case len(names) == 0:
		return ": it has no branches"
	}
	var list strings.Builder
	for _, n := range names[:min(len(names), shown)] {
		list.WriteString(" " + printable(n))
	}
	if len(names) > shown {
		list.WriteString(" …")
	}
	return "; it has" + list.String()
}

// Differing returns the branches at commits that no ref of the git layer is at. Without any it is a
// *Refusal.
func (r *Repo) Differing() (list []Branch, err error) {
	names, err := r.names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if r.ctx.Err() != nil {
			return nil, context.Cause(r.ctx)
		}
		id, err := r.resolve(heads+name, 0)
		switch {
		case errors.Is(err, fs.ErrNotExist): // a symbolic ref to none
		case err != nil:
			return nil, err
		case !r.layer.has(id):
			list = append(list, Branch{name, id})
		}
	}
	if len(list) == 0 {
		return nil, refuse(Conflict, "there is nothing to export: no branch of the workspace has commits that the volume did not begin with")
	}
	return list, nil
}

// resolve returns the commit of a ref, after depth symbolic refs. The error of one that does not
// exist is fs.ErrNotExist.
func (r *Repo) resolve(name string, depth int) (id string, err error) {
	if depth > maxSymbolic {
		return "", refuse(Unusable, "the workspace has a chain of more than %d symbolic refs, up to %q", maxSymbolic, name)
	}
	if err := checkRef(name); err != nil {
		return "", refuse(Unusable, "the workspace has a ref with a name that is not allowed: %v", err)
	}
	data, err := readFile(r.dir, name, maxRefFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), isDir(err):
		return r.packedID(name)
	case err != nil:
		return "", err
	}
	id, target, err := r.parse(name, data)
	if err != nil || id != "" {
		return id, err
	}
	return r.resolve(target, depth+1)
}

// parse reads the content of the ref's file: an ID, or the name of another ref.
func (r *Repo) parse(name string, data []byte) (id, target string, err error) {
	text := strings.TrimRight(string(data), " \t\r\n")
	if target, ok := strings.CutPrefix(text, "ref:"); ok {
		target = strings.TrimLeft(target, " \t")
		if err := checkRef(target); err != nil {
			return "", "", refuse(Unusable, "%s of the workspace is a symbolic ref to %.80q: allowed are refs within refs/", printable(name), target)
		}
		return "", target, nil
	}
	if !gitref.IsObjectID(text) || gitref.Format(text) != r.layer.format {
		return "", "", refuse(Unusable, "%s of the workspace has the content %.80q, which is not an object ID of the format %s", printable(name), text, r.layer.format)
	}
	return text, "", nil
}

// packedID looks a ref up in packed-refs.
func (r *Repo) packedID(name string) (string, error) {
	if strings.HasPrefix(name, heads) {
		if id, ok := r.heads[name]; ok {
			return id, nil
		}
		return "", fs.ErrNotExist
	}
	if r.scans++; r.scans > maxScans {
		return "", refuse(TooLarge, "the workspace has more than %d symbolic refs to packed refs that are not branches", maxScans)
	}
	var found string
	err := r.eachPacked(func(id, ref []byte) error {
		if string(ref) == name {
			found = string(id)
		}
		return nil
	})
	if err == nil && found == "" {
		err = fs.ErrNotExist
	}
	return found, err
}

// names returns the names of all branches that are allowed, sorted. Others, such as those that
// look like options, are left out.
func (r *Repo) names() ([]string, error) {
	var names []string
	entries, size, dirSize := 0, 0, 0
	var walk func(rel string, level int) error
	walk = func(rel string, level int) error {
		if level > maxLevels {
			return refuse(TooLarge, "the workspace has more than %d levels of directories below refs/heads", maxLevels)
		}
		var dirs []string
		err := r.eachName(rel, maxEntries-entries, func(e fs.DirEntry) error {
			entries++
			below := path.Join(rel, e.Name())
			if name := strings.TrimPrefix(below, heads); e.IsDir() {
				dirs, dirSize = append(dirs, below), dirSize+len(below)
			} else if checkBranch(name) == nil {
				names, size = append(names, name), size+len(name)
			}
			if max(size, dirSize) > maxBranchBytes { // while they are read, because they are kept
				return tooManyBranches()
			}
			return nil
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, below := range dirs {
			if err := walk(below, level+1); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(strings.TrimSuffix(heads, "/"), 0); err != nil {
		return nil, err
	}
	for ref := range r.heads {
		if name := strings.TrimPrefix(ref, heads); checkBranch(name) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > maxBranches {
		return nil, refuse(TooLarge, "the workspace has more than %d branches: name one", maxBranches)
	}
	return names, nil
}

func tooManyBranches() *Refusal {
	return refuse(TooLarge, "the workspace has more than %d branches, or %d bytes of their names", maxBranches, maxBranchBytes)
}

// checkBranch returns a *Refusal if a branch can't have that name here: if git refuses it, or if
// it looks like an option.
func checkBranch(name string) error {
	if name == "" || name[0] == '-' || name == "HEAD" {
		return refuse(Invalid, "%.80q is not the name of a branch: allowed are names that git allows, without a leading dash, and not HEAD", name)
	}
	if err := checkRef(heads + name); err != nil {
		return refuse(Invalid, "%.80q is not the name of a branch: %v", name, err)
	}
	return nil
}

// checkRef returns an error unless name is a full ref that git allows.
func checkRef(name string) error {
	ref, err := volume.ParseRef(name)
	if err != nil {
		return err
	}
	if ref.Kind() != volume.RefFull {
		return refuse(Invalid, "%.80q is not a full ref", name)
	}
	return nil
}
