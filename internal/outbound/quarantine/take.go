package quarantine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/work"
)

// These are multiplied: see most.
const (
	maxObjects = 2_000_000
	maxNeeds   = 200_000 // commits that the new ones build on
)

const (
	maxLoose       = 250_000 // reading one takes some 20 µs
	maxPacks       = 500     // each takes a run of git
	maxPackEntries = 10_000  // also .idx, .rev and files that git is writing
)

// Taken is commits in quarantine.
type Taken struct {
	// Branches are those that were chosen.
	Branches []Branch
	// Commits and Objects are those that the refs of the git layer do not reach, and Bytes is the
	// size of their pack.
	Commits, Objects, Bytes int64
	// Warnings are findings of git fsck that are known from old history and harm nobody (tolerated): each has the ID of an
	// object, the name of the finding and git's words, in printable ASCII. There are at most maxWarnings, of maxWarning bytes
	// each, and one more that counts the others.
	Warnings []string

	git   *git.Git
	dir   string
	layer layer
	// upstream is nil without Follow. It stays open as long as Taken.
	upstream *Upstream
	maxSize  int64 // of the Quarantine
	large    *work.Scheduler
	small    bool // see withLists
}

// most returns a limit on a number of objects, files or names, which is for each GiB of PUSH_MAX_SIZE.
func (t *Taken) most(limit int) int {
	if t.small {
		limit /= smallPart
	}
	return limit * t.factor()
}

func (t *Taken) factor() int { return int(max(t.maxSize>>30, 1)) }

// Progress says what is being done, with the objects that are done and their number if known.
type Progress func(phase string, done, total int64)

// Take copies the objects of a workspace into the quarantine, and checks those that the branches
// need and the git layer does not have. The error is a *Refusal, or of git. Close the result.
func (q *Quarantine) Take(ctx context.Context, r *Repo, branches []Branch, report Progress) (t *Taken, err error) {
	err = q.WithRoom(ctx, func() (err error) {
		t, err = q.take(ctx, r, branches, report)
		return err
	})
	return t, err
}

func (q *Quarantine) take(ctx context.Context, r *Repo, branches []Branch, report Progress) (t *Taken, err error) {
	dir, err := os.MkdirTemp(q.Dir, "push-*")
	if err != nil {
		return nil, fmt.Errorf("make a quarantine: %w", err)
	}
	t = &Taken{Branches: branches, git: q.Git, dir: dir, layer: r.layer, maxSize: q.MaxSize, large: q.large}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
			t = nil
		}
	}()
	if err := t.make(r); err != nil {
		return t, fmt.Errorf("make a quarantine: %w", err)
	}
	failpoint.Hit("quarantine/take/made")
	m := &meter{maxBytes: q.MaxSize, maxObjects: int64(t.most(maxObjects))}
	if err := t.importObjects(ctx, r, m, report); err != nil {
		return t, err
	}
	failpoint.Hit("quarantine/take/indexed")
	if err := t.makeStore(t.checked()); err != nil { // only now, because many an import fails
		return t, fmt.Errorf("make a quarantine: %w", err)
	}
	report("checking objects", 0, 0)
	if err := t.choose(ctx); err != nil {
		return t, err
	}
	failpoint.Hit("quarantine/choose/checked")
	return t, nil
}

// Close removes the quarantine of t.
func (t *Taken) Close() error { return os.RemoveAll(t.dir) }

// Forget frees the memory of the git layer's refs when all is checked: a remote, or a reader, may take long. Only Push,
// Bundle and Close may be called afterwards.
func (t *Taken) Forget() {
	t.layer.bases, t.layer.moved, t.layer.shallow = objectIDs{}, objectIDs{}, nil
}

// base is the directory of the git layer's objects, imported and checked are the repositories, pack is the file for a
// bundle, and needs has the lines of its header about the commits that a receiver must have to use the pack.
func (t *Taken) base() string     { return filepath.Join(t.dir, "base") }
func (t *Taken) imported() string { return filepath.Join(t.dir, "import.git") }
func (t *Taken) checked() string  { return filepath.Join(t.dir, "push.git") }
func (t *Taken) pack() string     { return filepath.Join(t.dir, "new.pack") }
func (t *Taken) needs() string    { return filepath.Join(t.dir, "needs") }

// make makes the repository for the import, and links what both read.
func (t *Taken) make(r *Repo) error {
	// git may only enter it: what this process puts beside the repositories stays as it is.
	if err := errors.Join(os.Chmod(t.dir, 0o711), t.layer.linkPacks(t.base())); err != nil {
		return err
	}
	if r.upstream != nil {
		if err := t.follows(r); err != nil {
			return err
		}
	}
	return t.makeStore(t.imported())
}

// makeStore makes one of the repositories.
func (t *Taken) makeStore(path string) error {
	alternates := []string{t.base()}
	if t.upstream != nil {
		alternates = append(alternates, t.upstream.objects())
	}
	return t.makeRepository(path, t.layer.shallow, alternates...)
}

// makeRepository makes a repository whose history ends at the commits of shallow, which is a file of git, or nil.
func (t *Taken) makeRepository(path string, shallow []byte, alternates ...string) error {
	uid, gid := t.git.Owner()
	if err := errors.Join(os.Mkdir(path, 0o700), os.Lchown(path, uid, gid)); err != nil {
		return err
	}
	if err := t.git.MakeStore(path, t.layer.format); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(path, "objects/info"), 0o755); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(path, "objects/info/alternates"), []byte(strings.Join(alternates, "\n")+"\n"), 0o644)
	if shallow != nil {
		err = errors.Join(err, os.WriteFile(filepath.Join(path, "shallow"), shallow, 0o644))
	}
	return err
}

// in returns a command in one of the repositories, which may read the git layer's objects.
func (t *Taken) in(repo string, c git.Command, args ...string) git.Command {
	c.Read = append(c.Read, t.base())
	if t.upstream != nil {
		c.Read = append(c.Read, t.upstream.objects())
	}
	return t.git.InStore(repo, c, args...)
}

const opTake = "take the commits of the workspace"

// importObjects makes git index what the container's repository has and the layer has not.
func (t *Taken) importObjects(ctx context.Context, r *Repo, m *meter, report Progress) error {
	ids, n, err := t.listLoose(r)
	if err != nil {
		return err
	}
	defer ids.Close()
	// Objects that are packed meanwhile are in a pack that is listed now.
	packs, err := r.packs()
	if err != nil {
		return err
	}
	total := int64(len(packs) + 1)
	for i, name := range packs {
		report("reading packs", int64(i), total)
		if err := t.importPack(ctx, r, name, m); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	report("reading objects", 0, int64(n))
	if err := m.count(int64(n)); err != nil {
		return err
	}
	err = t.index(ctx, t.imported(), nil, func(ctx context.Context, w *bufio.Writer) (err error) {
		disk.Nice(disk.Lowest, func() { err = r.packLoose(ctx, w, bufio.NewReader(ids), n, m) })
		return err
	})
	if refused := (*Refusal)(nil); err == nil || errors.As(err, &refused) || ofOurs(err) {
		return err
	}
	return refuse(Unusable, "the loose objects of the workspace can't be used: %v", err)
}

// listLoose returns a file without a name that has the IDs of the n loose objects: many workspaces may have many. Close it.
func (t *Taken) listLoose(r *Repo) (ids *os.File, n int, err error) {
	f, err := os.CreateTemp(t.dir, "loose-*")
	if err != nil {
		return nil, 0, err
	}
	w := bufio.NewWriter(f)
	if err = os.Remove(f.Name()); err == nil {
		n, err = r.loose(w)
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, n, nil
}

func (t *Taken) importPack(ctx context.Context, r *Repo, name string, m *meter) error {
	f, err := openFile(r.dir, "objects/pack/"+name+".pack")
	if refused := (*Refusal)(nil); errors.As(err, &refused) {
		return err
	}
	if err != nil {
		return refuse(Changed, "the pack %q of the workspace can't be read (%v): if it was removed meanwhile, run it again", name, err)
	}
	defer f.Close()
	err = t.index(ctx, t.imported(), nil, func(_ context.Context, w *bufio.Writer) error { return r.copyPack(w, f, m) })
	if refused := (*Refusal)(nil); err == nil || errors.As(err, &refused) || ofOurs(err) {
		return err
	}
	return damagedPack(f, err)
}

// index makes git add the pack that write writes to a repository. hear, if not nil, is called with each line of its stderr.
func (t *Taken) index(ctx context.Context, repo string, hear func(line string), write func(context.Context, *bufio.Writer) error, args ...string) error {
	args = append([]string{"index-pack", "--stdin"}, args...)
	if t.layer.noBlobs { // fsck wants to read files such as .gitattributes, but not those of a promisor
		args = append([]string{"-c", "remote.origin.promisor=true"}, args...)
	}
	c := t.in(repo, git.Command{Op: opTake, Heavy: true, Write: []string{repo}, Dialog: true, Stderr: hear}, args...)
	c.Talk = git.Feed(write)
	_, err := t.git.Run(ctx, c)
	return localError(err)
}

// localError makes the advice of a limit's error about pushes.
func localError(err error) error {
	if e, ok := giterrorOf(err); ok && e.Kind == giterror.KindLimit && e.Remedy == "" {
		e.Remedy = "push fewer or smaller commits, or give the machine more"
	}
	return err
}

// choose packs what the branches need and the layer does not have, and checks it.
func (t *Taken) choose(ctx context.Context) error {
	if err := t.checkTips(ctx); err != nil {
		return err
	}
	if err := t.follow(ctx); err != nil {
		return err
	}
	if err := t.packNew(ctx); err != nil {
		return err
	}
	refs := make([]gitref.PackedRef, len(t.Branches))
	for i, b := range t.Branches {
		refs[i] = gitref.PackedRef{Name: heads + b.Name, ID: b.ID}
		if b.Name == "" {
			refs[i].Name = heads + detached
		}
	}
	slices.SortFunc(refs, func(a, b gitref.PackedRef) int { return strings.Compare(a.Name, b.Name) })
	return t.git.WriteRefs(t.checked(), refs, false)
}

// detached is the branch in our repository for the commit of a detached HEAD.
const detached = "HEAD"

// checkTips refuses branches whose commit is missing, or is none.
func (t *Taken) checkTips(ctx context.Context) error {
	var ids strings.Builder
	for _, b := range t.Branches {
		ids.WriteString(b.ID + "\n")
	}
	c := t.in(t.imported(), git.Command{Op: opTake, Heavy: true, Stdin: ids.String()}, "cat-file", "--batch-check=%(objecttype)")
	i := 0
	err := t.git.EachRecord(ctx, c, '\n', func(kind string) error { // "<ID> missing" without the object
		if i == len(t.Branches) {
			return errors.New("cat-file: more lines than objects")
		}
		b := t.Branches[i]
		i++
		switch kind {
		case "commit":
			return nil
		case "tree", "blob", "tag":
			return refuse(Unusable, "branch %q of the workspace is at a %s, and not at a commit", b.Name, kind)
		}
		return missing(b, "the commit is not there")
	})
	return localError(err)
}

// missing is the error of a branch whose objects are not all there.
func missing(b Branch, why string) error {
	return refuse(Unusable, "branch %q of the workspace (%s) is not complete: %s. Objects of alternates, grafts, replace refs and of shallow "+
		"fetches in the container do not count; if something was written meanwhile, run it again", b.Name, b.ID, why)
}

// wants is the stdin of git for what the branches need and the layer does not have.
func (t *Taken) wants() io.Reader { return t.wantsOf(t.Branches...) }

func (t *Taken) wantsOf(branches ...Branch) io.Reader {
	var b strings.Builder
	for _, branch := range branches {
		b.WriteString(branch.ID + "\n")
	}
	return io.MultiReader(strings.NewReader(b.String()), t.layer.bases.lines("^"), t.layer.moved.lines("^"))
}

// follow counts the new commits, and writes down those that they build on.
func (t *Taken) follow(ctx context.Context) error {
	f, err := os.OpenFile(t.needs(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w, needs := bufio.NewWriter(f), 0
	c := t.in(t.imported(), git.Command{Op: opTake, Heavy: true, Input: t.wants()}, "rev-list", "--boundary", "--stdin")
	err = t.git.EachRecord(ctx, c, '\n', func(id string) error {
		if !strings.HasPrefix(id, "-") {
			t.Commits++
			return nil
		}
		if needs++; needs > t.most(maxNeeds) {
			return refuse(TooLarge, "the new commits build on more than %d commits that the volume began with (setting PUSH_MAX_SIZE)", t.most(maxNeeds))
		}
		_, err := w.WriteString(id + " \n")
		return err
	})
	if err != nil {
		return t.incomplete(err)
	}
	return w.Flush()
}

// incomplete turns an error of a git that follows the branches into a refusal, unless it is
// about us.
func (t *Taken) incomplete(err error) error {
	if err == nil || ofOurs(err) {
		return localError(err)
	}
	if refused := (*Refusal)(nil); errors.As(err, &refused) {
		return err
	}
	e, ok := giterrorOf(err)
	if !ok {
		return err
	}
	return missing(t.Branches[0], giterror.Printable(lastLine(e.Stderr)))
}

// lastLine returns the last line of git's stderr that begins with fatal or error.
func lastLine(stderr string) (last string) {
	for line := range strings.Lines(stderr) {
		for _, prefix := range []string{"fatal: ", "error: "} {
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				last = strings.TrimSpace(rest)
			}
		}
	}
	return last
}

// packNew packs the new objects, checks them as git fsck does, and adds them to the repository
// that is pushed from.
func (t *Taken) packNew(ctx context.Context) error {
	f, err := os.OpenFile(t.pack(), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	c := t.in(t.imported(), git.Command{Op: opTake, Heavy: true, Input: t.wants()},
		"pack-objects", "--revs", "--thin", "--stdout", "--delta-base-offset", "-q")
	c.Talk = func(_ context.Context, _ io.WriteCloser, stdout io.Reader) error {
		var err error
		t.Bytes, err = io.Copy(f, io.LimitReader(stdout, t.maxSize+1))
		if err == nil && t.Bytes > t.maxSize {
			err = refuse(TooLarge, "the new commits have more than %d bytes (setting PUSH_MAX_SIZE)", t.maxSize)
		}
		return err
	}
	if _, err := t.git.Run(ctx, c); err != nil {
		return t.incomplete(err)
	}
	if err := os.RemoveAll(t.imported()); err != nil { // so that there are never more than two copies
		return err
	}
	if t.Objects, err = objectsIn(f); err != nil || t.Objects == 0 {
		return err
	}
	return t.check(ctx, f)
}
