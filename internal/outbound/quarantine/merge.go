package quarantine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
)

const (
	// mergeRenames bounds the files that are compared to find renames: a thousand deleted ones with a thousand added
	// ones. git's own limit is seven times as large, and takes fifty times as long.
	mergeRenames = 1000
	// mergeWatch is how often the size of what a merge writes is looked at. git writes some 100 MB a second.
	mergeWatch = 200 * time.Millisecond
)

const opMerge = "merge the commits of both workspaces"

// Conflicts merges the first branch of t with that of other, and calls f with each path that is in conflict. clean
// reports whether there is none: some conflicts, as between renames of directories, have no path. The branches are those
// of one clone. Nothing of the merge is kept, and neither t nor other is changed.
//
// git merges in a repository of our own (merge.git beside the others of t), whose alternates are both quarantines. It has no
// work tree, so no .gitattributes is read, and its configuration is ours: no merge driver and no filter can run.
func (t *Taken) Conflicts(ctx context.Context, other *Taken, f func(path string) error) (clean bool, err error) {
	if t.layer.format != other.layer.format {
		return false, refuse(Unusable, "one repository has objects of %s, and the other one of %s", t.layer.format, other.layer.format)
	}
	repo := filepath.Join(t.dir, "merge.git")
	if err := t.makeMerge(repo, other); err != nil {
		return false, fmt.Errorf("make a quarantine: %w", errors.Join(err, os.RemoveAll(repo)))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(repo)) }()
	c := git.Command{
		Op: opMerge, Heavy: true, Write: []string{repo},
		Read: []string{t.base(), t.checked(), other.base(), other.checked()},
	}
	c = t.git.InStore(repo, c, "-c", fmt.Sprintf("merge.renameLimit=%d", mergeRenames), "-c", "merge.renormalize=false", "-c", "core.compression=1",
		"merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", t.Branches[0].ID, other.Branches[0].ID)
	watched, stop := t.watch(ctx, repo)
	defer stop()
	tree := ""
	err = t.git.EachRecord(watched, c, 0, func(record string) error {
		if tree == "" {
			tree = record
			return nil
		}
		return f(record)
	})
	exit, ok := errors.AsType[exitCoder](err)
	switch refused, tooLarge := context.Cause(watched).(*Refusal); {
	case err == nil && gitref.IsObjectID(tree):
		return true, nil
	case ctx.Err() == nil && tooLarge:
		return false, refused
	case ok && exit.ExitCode() == 1 && gitref.IsObjectID(tree) && !ofOurs(err):
		return false, nil
	case err == nil:
		return false, fmt.Errorf("merge-tree: unexpected record %.100q", tree)
	}
	return false, t.notMerged(err, other)
}

// exitCoder is the error of a process that ended with a status.
type exitCoder interface {
	error
	ExitCode() int
}

// makeMerge makes the repository in which t is merged with other. Each has its git layer as an alternate.
func (t *Taken) makeMerge(repo string, other *Taken) error {
	// A history that ends in one of them ends in both: what is beyond may be missing.
	var shallow []byte
	if ends := slices.Concat(lines(t.layer.shallow), lines(other.layer.shallow)); len(ends) > 0 {
		slices.Sort(ends)
		shallow = []byte(strings.Join(slices.Compact(ends), "\n") + "\n")
	}
	return t.makeRepository(repo, shallow, filepath.Join(t.checked(), "objects"), filepath.Join(other.checked(), "objects"))
}

// lines returns the lines of a text that are not empty.
func lines(text []byte) []string { return strings.Fields(string(bytes.TrimSpace(text))) }

// watch returns a context that ends with ctx, and when a directory has more than PUSH_MAX_SIZE. Call stop.
func (t *Taken) watch(ctx context.Context, dir string) (_ context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(mergeWatch)
		defer tick.Stop()
		for {
			select {
			case <-watched.Done():
				return
			case <-tick.C:
			}
			if size, err := disk.Measure(watched, dir); err == nil && size.Bytes > t.maxSize {
				cancel(refuse(TooLarge, "the merge has more than %d bytes (setting PUSH_MAX_SIZE)", t.maxSize))
			}
		}
	}()
	return watched, func() {
		cancel(context.Canceled)
		<-ended
	}
}

// notMerged explains why git could not merge t with other.
func (t *Taken) notMerged(err error, other *Taken) error {
	e, ok := giterrorOf(err)
	if !ok {
		return err
	}
	if ofOurs(err) {
		if e.Kind == giterror.KindLimit && e.Remedy == "" {
			e.Remedy = "merge them in a container, or give the machine more"
		}
		return err
	}
	shallow := ""
	if t.layer.shallow != nil || other.layer.shallow != nil {
		shallow = " in the part of the history that the volume has (option depth)"
	}
	switch {
	case strings.Contains(e.Stderr, "unrelated histories"):
		return refuse(Conflict, "the commits %s and %s have no common ancestor%s, and git does not merge unrelated histories", t.Branches[0].ID, other.Branches[0].ID, shallow)
	case t.layer.noBlobs || other.layer.noBlobs:
		return refuse(Unusable, "the merge needs files that were not fetched (option filter=blob:none): merge in a container that can reach the remote, or use a volume without the filter")
	}
	return refuse(Unusable, "git can't merge the commits: %s", giterror.Printable(lastLine(e.Stderr)))
}

// emptyTree has the IDs of the tree without entries, which git knows without an object.
var emptyTree = map[string]string{
	gitref.SHA1:   "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
	gitref.SHA256: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}

// maxSince and maxSinceNames bound what Since keeps, because all that inspect may do so at the same time.
const (
	maxSince      = 20_000
	maxSinceNames = 2 << 20 // bytes
)

// Entry is a file in the tree of a commit.
type Entry struct {
	Mode string // as git writes it, such as 100644
	ID   string // of its object
}

// Since returns the files that differ between a commit of the git layer, which may be empty for none, and the first
// branch, by path, as the branch has them. The mode of one that it has not is 000000.
func (t *Taken) Since(ctx context.Context, commit string) (map[string]Entry, error) {
	if commit == "" {
		commit = emptyTree[t.layer.format]
	}
	c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true}, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", commit, t.Branches[0].ID)
	files, names := make(map[string]Entry), 0
	var next Entry
	err := t.git.EachRecord(ctx, c, 0, func(record string) error {
		if next.ID == "" {
			fields := strings.Fields(record) // modes, IDs, status
			if len(fields) != 5 || !strings.HasPrefix(record, ":") {
				return fmt.Errorf("diff-tree: unexpected record %.100q", record)
			}
			next = Entry{strings.Clone(fields[1]), strings.Clone(fields[3])}
			return nil
		}
		names += len(record)
		files[record], next = next, Entry{}
		if len(files) > t.most(maxSince) || names > t.most(maxSinceNames) {
			return refuse(TooLarge, "the commits change more than %d files, or names of more than %d bytes (setting PUSH_MAX_SIZE)", t.most(maxSince), t.most(maxSinceNames))
		}
		return nil
	})
	return files, t.incomplete(err)
}
