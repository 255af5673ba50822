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

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// Spec is one checkout from a store into a directory that is empty, except for an empty
// .git.
type Spec struct {
	Store    string
	Commit   string
	Cone     gitindex.Cone
	Dir      string // belongs to UID and GID, as all files in it will
	GitDir   string // an empty directory that belongs to UID and GID too; "": Dir/.git
	UID, GID uint32
	// Below are the layers of the checkout that Move starts from, topmost first. Each has the
	// whole index. Make ignores them.
	Below []string
	// Make copies the times of files that are the same in TimesFrom. Move ignores it.
	TimesFrom Reference

	Tracks     string // a path: Found.Tracked reports whether the commit has it
	NoLFS      bool   // do not look for git-lfs pointers
	Submodules bool   // look for submodules
	// SizeFactor is that of the Git that the checkout is given to: callers need not set it.
	SizeFactor git.SizeFactor
}

// IndexFile and, with a cone, Patterns are the files that a checkout writes into its
// GitDir.
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
	// filesPerWriter is the least number of files for each writing process: starting one,
	// which reads the index, costs as much as writing some hundred files. The index of a move
	// has no other files.
	filesPerWriter      = 500
	movedFilesPerWriter = 50
	// maxWriters bounds the number of these processes, and maxLoaded the entries that all
	// of them have in memory, with some 200 bytes each.
	maxWriters = 8
	maxLoaded  = 2_000_000
)

// checkOut writes the files of a commit into c.Dir, their index and the patterns of
// c.Cone. It uses a temporary repository that borrows the store's objects, so that
// checkouts of different shapes do not share configuration. The caller must then call
// complete on the index. If the index is large, checkOut only writes its file and fails
// with errLarge; called again with large set, it continues from there.
func (g runner) checkOut(ctx context.Context, c Spec, large bool) (ix *index, err error) {
	defer func() { err = errors.Join(err, c.removeRepository()) }()
	if err := errors.Join(c.makeRepository(), c.writePatterns()); err != nil {
		return nil, err
	}
	if !large {
		if err := g.runIn(ctx, c, IndexFile, "", nil, "read-tree", "-m", c.Commit+"^{commit}"); err != nil {
			return nil, err
		}
		switch size, err := sizeOf(filepath.Join(c.gitDir(), IndexFile)); {
		case err != nil:
			return nil, err
		case size > largeIndex:
			// Sync it now, because the large job may wait long for its turn.
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

// listIndex makes git read an index of another format. The result has no cache of trees,
// so the next commit is checked out in full, too.
func (g runner) listIndex(ctx context.Context, c Spec) (*index, error) {
	ix := &index{Index: gitindex.New(c.idSize()), checkout: c}
	return ix, g.EachRecord(ctx, g.command(c, IndexFile, "ls-files", "-z", "--stage"), 0, func(entry string) error {
		info, name, _ := strings.Cut(entry, "\t")
		return ix.Add(info, name)
	})
}

// writeFiles writes the files of ix, which is also in the file index, into the work tree,
// and replaces existing ones. Several processes each write a part: git's own workers
// report every file to one parent, and with two processors are no faster than one
// process.
func (g runner) writeFiles(ctx context.Context, c Spec, index string, ix *index) error {
	names, perWriter := ix.Names(), filesPerWriter
	if index == movedIndex {
		perWriter = movedFilesPerWriter
	}
	writers := min(len(names)/perWriter, runtime.NumCPU()+1, maxWriters, maxLoaded/max(1, len(ix.Entries)))
	attributes, parts := splitNames(names, max(1, writers))
	var encoded encodings
	if err := g.writePart(ctx, c, index, attributes, &encoded); err != nil {
		return err
	}
	if err := makeShared(c.Dir, parts); err != nil {
		return err
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

// splitNames splits sorted names into parts that can be written concurrently, after
// attributes. The .gitattributes come before all others, because git reads them from the
// work tree, and must not find half of one.
func splitNames(names []string, n int) (attributes []string, parts [][]string) {
	var rest []string
	for _, name := range names {
		if path.Base(name) == gitindex.Attributes {
			attributes = append(attributes, name)
		} else {
			rest = append(rest, name)
		}
	}
	for i := range n {
		parts = append(parts, rest[len(rest)*i/n:len(rest)*(i+1)/n])
	}
	return attributes, parts
}

// makeShared makes the directories in dir that two parts share, because concurrent mkdir
// calls of git race: all of them are parents of the later part's first name. If one can't
// be made, git says why.
func makeShared(dir string, parts [][]string) error {
	if len(parts) < 2 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, part := range parts {
		if len(part) > 0 {
			_ = root.MkdirAll(path.Dir(part[0]), 0o777)
		}
	}
	return nil
}

func (g runner) writePart(ctx context.Context, c Spec, index string, names []string, encoded *encodings) error {
	if len(names) == 0 {
		return nil
	}
	stdin := strings.Join(names, "\x00")
	return g.runIn(ctx, c, index, stdin, encoded.stderrLine, "checkout-index", "--force", "-z", "--stdin")
}

// command returns a command of git in the repository of a checkout, as the tree's uid.
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

// runIn runs such a command, and calls onStderr, if set, with each line of its stderr. If
// the disk is full, it ends the command at once.
func (g runner) runIn(ctx context.Context, c Spec, index, stdin string, onStderr func(line string), args ...string) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	run := g.command(c, index, args...)
	run.Stdin = stdin
	// git does not say why it can't write a file, and tries all others before it fails.
	run.Stderr = func(line string) {
		if strings.HasPrefix(line, "error: unable to write file") && disk.Full(run.Write) {
			stop(syscall.ENOSPC)
		}
		if onStderr != nil {
			onStderr(line)
		}
	}
	_, err := g.Run(ctx, run)
	return err
}

// makeRepository makes c.GitDir a repository for the time of a checkout.
func (c Spec) makeRepository() error {
	top := c.gitDir()
	config := "[core]\n\trepositoryformatversion = 0\n"
	if gitref.Format(c.Commit) == gitref.SHA256 {
		config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n"
	}
	return errors.Join(
		os.WriteFile(filepath.Join(top, "HEAD"), []byte("ref: refs/heads/none\n"), 0o644),
		os.WriteFile(filepath.Join(top, "config"), []byte(config), 0o644),
		os.Mkdir(filepath.Join(top, "refs"), 0o755),
	)
}

// writePatterns writes the cone's patterns, if there is a cone.
func (c Spec) writePatterns() error {
	if c.Cone == nil {
		return nil
	}
	patterns := filepath.Join(c.gitDir(), Patterns)
	// The process that made a large index has written them already.
	return errors.Join(os.MkdirAll(filepath.Dir(patterns), 0o755), os.WriteFile(patterns, c.Cone.Patterns(), 0o644))
}

func (c Spec) removeRepository() error {
	top := c.gitDir()
	return errors.Join(
		os.RemoveAll(filepath.Join(top, "HEAD")), os.RemoveAll(filepath.Join(top, "config")), os.RemoveAll(filepath.Join(top, "refs")),
	)
}
