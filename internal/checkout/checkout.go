package checkout

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitindex"
)

// Spec is one checkout from a store into a directory that holds nothing but
// an empty .git, if that.
type Spec struct {
	Store    string
	Commit   string
	Cone     gitindex.Cone
	Dir      string // belongs to UID and GID, and so will all that is written
	GitDir   string // an empty directory that belongs to them too; empty: Dir/.git
	UID, GID uint32
	// Like is where a file that is the same has the time that it gets. Only
	// Make uses it.
	Like Reference

	Tracks     string // a name: Found.Tracked says whether the commit has it
	NoLFS      bool   // pointers of git-lfs are not looked for
	Submodules bool   // submodules are
}

// IndexFile and Patterns are what a checkout leaves in its GitDir; the second one
// only if it has a cone.
const (
	IndexFile = "index"
	Patterns  = "info/sparse-checkout"
)

func (c Spec) gitDir() string {
	if c.GitDir == "" {
		return filepath.Join(c.Dir, ".git")
	}
	return c.GitDir
}

const (
	// filesPerWriter is how many files a process that writes them is worth: starting
	// one, which reads the index, costs as much as to write some hundred.
	filesPerWriter = 500
	// maxWriters bounds them, and maxLoaded the entries that all of them have in
	// memory, at some 200 bytes each.
	maxWriters = 8
	maxLoaded  = 2_000_000
)

// checkOut writes the files of a commit into c.Dir, their index and the patterns of
// c.Cone, in a repository of its own that borrows the store's objects: what checkouts
// of different shapes tell git does not meet. The index is not complete before it is
// settled. If that is a large one, it makes the file alone, and fails with errLarge; as
// a large job it goes on from there.
func (g runner) checkOut(ctx context.Context, c Spec, large bool) (ix *index, err error) {
	defer func() { err = errors.Join(err, c.removeRepository()) }()
	if err := errors.Join(c.makeRepository(), c.writePatterns()); err != nil {
		return nil, err
	}
	if !large {
		if err := g.runIn(ctx, c, IndexFile, "", nil, "read-tree", "-m", c.Commit); err != nil {
			return nil, err
		}
		switch size, err := c.indexSize(); {
		case err != nil:
			return nil, err
		case size > largeIndex:
			// Now, because the job may wait for its turn as a large one for long.
			return nil, cmp.Or(writeOutFile(filepath.Join(c.gitDir(), IndexFile)), errLarge)
		}
	}
	if ix, err = c.readIndex(IndexFile); errors.Is(err, errFormat) {
		ix, err = g.listIndex(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	ix.LeaveOut(c.Cone)
	return ix, g.writeFiles(ctx, c, IndexFile, ix)
}

// listIndex has git read an index that can't be read here. It has no cache of trees then:
// the next commit is checked out whole, too.
func (g runner) listIndex(ctx context.Context, c Spec) (*index, error) {
	ix := &index{Index: gitindex.New(c.idSize()), checkout: c}
	return ix, g.EachRecord(ctx, g.command(c, IndexFile, "ls-files", "-z", "--stage"), 0, func(entry string) error {
		info, name, _ := strings.Cut(entry, "\t")
		return ix.Add(info, name)
	})
}

// writeFiles writes the files of an index, which is also in the file of that name,
// into the work tree, in the place of what is there. Several processes do it, each its
// own part: git's own workers report every file to one parent, and with two processors
// are no faster than one process.
func (g runner) writeFiles(ctx context.Context, c Spec, index string, ix *index) error {
	names := ix.Names()
	writers := min(len(names)/filesPerWriter, runtime.NumCPU()+1, maxWriters, maxLoaded/max(1, len(ix.Entries)))
	attributes, first, parts := splitNames(names, max(1, writers))
	var encoded encodings
	for _, part := range [][]string{attributes, first} {
		if err := g.writePart(ctx, c, index, part, &encoded); err != nil {
			return err
		}
	}
	work, workCtx := errgroup.WithContext(ctx)
	for _, part := range parts {
		work.Go(func() error { return g.writePart(workCtx, c, index, part, &encoded) })
	}
	if err := work.Wait(); err != nil {
		return err
	}
	return g.checkEncoded(ctx, c, ix, &encoded)
}

// splitNames splits names, which are sorted, into parts that may be written at the
// same time, once the others are. The .gitattributes go before all, for git reads
// them from the work tree, and must not find half of one. Then goes the first name of
// each part, for of two processes that make one directory at the same time one fails:
// all directories that two parts have in common are above the first name of the later.
func splitNames(names []string, n int) (attributes, first []string, parts [][]string) {
	var rest []string
	for _, name := range names {
		if path.Base(name) == gitindex.Attributes {
			attributes = append(attributes, name)
		} else {
			rest = append(rest, name)
		}
	}
	for i := range n {
		part := rest[len(rest)*i/n : len(rest)*(i+1)/n]
		if n > 1 && len(part) > 0 {
			first, part = append(first, part[0]), part[1:]
		}
		parts = append(parts, part)
	}
	return attributes, first, parts
}

func (g runner) writePart(ctx context.Context, c Spec, index string, names []string, encoded *encodings) error {
	if len(names) == 0 {
		return nil
	}
	var stdin strings.Builder
	for _, name := range names {
		stdin.WriteString(name)
		stdin.WriteByte(0)
	}
	return g.runIn(ctx, c, index, stdin.String(), encoded.said, "checkout-index", "--force", "-z", "--stdin")
}

// command is one of git in the repository of a checkout, as the tree's uid.
func (g runner) command(c Spec, index string, args ...string) git.Command {
	objects := filepath.Join(c.Store, "objects")
	return git.Command{
		Op: "check out " + c.Commit,
		Args: append([]string{
			"--git-dir=" + c.gitDir(), "--work-tree=" + c.Dir, "-c", "core.bare=false", "-c", "index.version=2",
		}, args...),
		Env: []string{"GIT_OBJECT_DIRECTORY=" + objects, "GIT_INDEX_FILE=" + filepath.Join(c.gitDir(), index)},
		Dir: c.Dir, UID: c.UID, GID: c.GID,
		Read: []string{objects}, Write: []string{c.Dir, c.gitDir()},
	}
}

// runIn runs such a command. said, if set, is called with each line of its stderr.
func (g runner) runIn(ctx context.Context, c Spec, index, stdin string, said func(line string), args ...string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	run := g.command(c, index, args...)
	run.Stdin = stdin
	// git does not say why it can't write a file; it tries all the others, and
	// fails in the end, which nobody waits for where the disk is full.
	run.Stderr = func(line string) {
		if strings.HasPrefix(line, "error: unable to write file") && git.Full(run.Write) {
			stop(syscall.ENOSPC)
		}
		if said != nil {
			said(line)
		}
	}
	_, err := g.Run(ctx, run)
	return err
}

// repository is what makes c.GitDir a repository for the time of a checkout.
var repository = []string{"HEAD", "config", "refs"}

func (c Spec) makeRepository() error {
	top := c.gitDir()
	config := "[core]\n\trepositoryformatversion = 0\n"
	if git.Format(c.Commit) == git.SHA256 {
		config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	return errors.Join(
		os.WriteFile(filepath.Join(top, "HEAD"), []byte("ref: refs/heads/none\n"), 0o644),
		os.WriteFile(filepath.Join(top, "config"), []byte(config), 0o644),
		os.Mkdir(filepath.Join(top, "refs"), 0o755),
	)
}

// writePatterns says in the repository what the cone is.
func (c Spec) writePatterns() error {
	if c.Cone == nil {
		return nil
	}
	patterns := filepath.Join(c.gitDir(), Patterns)
	err := os.Mkdir(filepath.Dir(patterns), 0o755)
	if errors.Is(err, os.ErrExist) { // of the process that made the index
		err = nil
	}
	return errors.Join(err, os.WriteFile(patterns, c.Cone.Patterns(), 0o644))
}

func (c Spec) removeRepository() error {
	var errs []error
	for _, name := range repository {
		errs = append(errs, os.RemoveAll(filepath.Join(c.gitDir(), name)))
	}
	return errors.Join(errs...)
}
