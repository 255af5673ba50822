package changes

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
)

const (
	// maxIgnore bounds a .gitignore or a .gitattributes, and maxIgnores all of one name that are read.
	maxIgnore, maxIgnores = 1 << 20, 16 << 20
	// maxIgnoreDirs bounds the directories in which one is looked for, and maxIgnoreMade those that are made for
	// the copies, because a container's directories cost it only their names, and ours are removed before an
	// inspection has ended.
	maxIgnoreDirs, maxIgnoreMade = 200_000, 20_000
	// ignoreTime bounds how long git matches patterns, its wait for a turn included. A hundred thousand
	// paths take seconds, and some patterns take years.
	ignoreTime = 20 * time.Second
	ignoreName = ".gitignore"
)

var errIgnoreSlow = fmt.Errorf("to match the patterns of all such files takes more than %v: the files that they name are not all ignored", ignoreTime)

// ignore marks the changes that are ignored on the sides that have them.
func (r *Reader) ignore(ctx context.Context, f *finder) error {
	for i, side := range []Side{f.Before, f.After} {
		if side.Root == side.Checkout {
			continue // git ignores nothing that it has checked out
		}
		if err := r.ignoreIn(ctx, &ignorer{finder: f, side: side, before: i == 0, ignored: f.ignored[i]}); err != nil {
			return err
		}
	}
	return nil
}

// ignorer finds the files of one side that a .gitignore there names.
type ignorer struct {
	*finder
	side    Side
	before  bool // which one it is
	ignored *list
}

// all yields the changes that are ignored if a .gitignore names them: the side has the file, and its checkout has not.
func (f *ignorer) all(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		for c, err := range f.found.all() {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err == nil && !f.asks(c) {
				continue
			}
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

func (f *ignorer) asks(c Change) bool {
	switch {
	case f.before && c.Kind == Added, !f.before && c.Kind == Deleted:
		return false
	case !f.before && f.Before.Root == f.side.Checkout:
		return c.Kind == Added
	case f.look(f.side.Checkout, c.Path).comparable():
		return false
	}
	// A file that is in the way of a file or a directory of the other side must go.
	return c.Kind != Deleted || !f.inTheWay(c.Path)
}

// inTheWay reports whether After has a directory at the path of a file of Before, or something else than a directory
// above it.
func (f *finder) inTheWay(path string) bool {
	at, err := disk.Open(f.After.Root, path, unix.O_PATH)
	if err != nil {
		return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
	}
	defer at.Close()
	return entryOf(at).kind == directory
}

// ignoreIn marks the files of one side that a .gitignore names. git decides that, in an empty repository whose work
// tree has nothing but copies of these files.
func (r *Reader) ignoreIn(ctx context.Context, f *ignorer) error {
	none := true
	for _, err := range f.all(ctx) {
		if err != nil {
			return err
		}
		none = false
		break
	}
	if none {
		return nil
	}
	repo, err := r.newRepository(gitref.SHA1)
	if err != nil {
		return err
	}
	defer repo.close()
	work := filepath.Join(repo.dir, "work")
	n := 0
	err = r.compute(ctx, func() (err error) {
		n, err = f.copyIgnores(ctx, work, maxIgnoreDirs, maxIgnoreMade)
		return err
	})
	if err != nil || n == 0 {
		return err
	}
	failpoint.Hit("changes/ignore/copied")
	limited, stop := context.WithTimeoutCause(ctx, ignoreTime, errIgnoreSlow)
	defer stop()
	c := git.Command{Op: "find ignored files", Heavy: true, Read: []string{work}}
	c = r.Git.InStore(repo.git(), c, "--work-tree="+work, "check-ignore", "-z", "--stdin", "--no-index")
	err = r.Git.EachAnswer(limited, c, 0, f.askIgnored, func(path string) error {
		return f.ignored.add(Change{Path: strings.TrimPrefix(path, here), Kind: Added})
	})
	if exit, ok := errors.AsType[exitCoder](err); ok && exit.ExitCode() == 1 {
		return nil // none is ignored
	}
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		f.omit(ignoreName, errIgnoreSlow.Error())
		return nil
	}
	return err
}

// askIgnored writes the files that may be ignored.
func (f *ignorer) askIgnored(ctx context.Context, w *bufio.Writer) error {
	for c, err := range f.all(ctx) {
		if err == nil {
			_, err = w.WriteString(here + c.Path + "\x00")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// here begins each path for git, because one that begins with a colon has another meaning.
const here = "./"

// exitCoder is the error of a process that ended with a status.
type exitCoder interface {
	error
	ExitCode() int
}

// copyIgnores copies the .gitignore files that matter for the files that may be ignored, and returns how
// many there are. It looks at most directories, and makes mostMade.
func (f *ignorer) copyIgnores(ctx context.Context, work string, most, mostMade int) (n int, err error) {
	return copyNamed(f.side.Root, ignoreName, f.all(ctx), work, most, mostMade, func(path, why string) {
		f.omit(path, "files that it names are not ignored: "+why)
	})
}

// copyNamed copies the files of one name, such as .gitignore, that are in the directories of paths and above them, into
// a new directory, and returns how many there are. It looks at most directories, and makes mostMade. leftOut is called
// for those that it does not copy.
func copyNamed(root *os.File, name string, paths iter.Seq2[Change, error], work string, most, mostMade int, leftOut func(path, why string)) (n int, err error) {
	if err := os.Mkdir(work, 0o755); err != nil {
		return 0, err
	}
	before, looked, made, room := "", 0, 0, int64(maxIgnores)
	for c, err := range paths {
		if err != nil {
			return n, err
		}
		// The paths are sorted, so those of a directory follow each other.
		last := before
		before = c.Path
		for dir := path.Dir(c.Path); !isIn(last, dir); dir = path.Dir(dir) {
			if looked == most {
				leftOut(path.Join(dir, name), fmt.Sprintf("it and others were not looked at, because files changed in more than %d directories", most))
				return n, nil
			}
			looked++
			if dir == "." {
				last = c.Path // it is the last one
			}
			data, err := readSmall(root, path.Join(dir, name), min(room, maxIgnore))
			room -= int64(len(data)) // also of what is left out
			switch {
			case absent(err):
				continue
			case err != nil:
				leftOut(path.Join(dir, name), errorText(err))
				continue
			}
			if made += strings.Count(dir, "/") + 1; made > mostMade {
				leftOut(path.Join(dir, name), "there are too many such files")
				continue
			}
			to := filepath.Join(work, dir)
			if err := errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, name), data, 0o644)); errors.Is(err, unix.ENAMETOOLONG) {
				continue
			} else if err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// isIn reports whether a path, empty for none, is below a directory.
func isIn(path, dir string) bool {
	return path != "" && (dir == "." || strings.HasPrefix(path, dir+"/"))
}

var errLarge = fmt.Errorf("it is larger than %d bytes, or all are larger than %d", maxIgnore, maxIgnores)

// readSmall reads a regular file of at most limit bytes. Of a larger one it reads nothing, or, if it grows, a part that it
// returns with the error.
func readSmall(root *os.File, path string, limit int64) ([]byte, error) {
	f, err := disk.Open(root, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch e := entryOf(f); {
	case e.err != nil || e.kind != file:
		return nil, errors.Join(e.err, os.ErrNotExist)
	case e.size > limit:
		return nil, errLarge
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errLarge
	}
	return data, err
}

// repository is a directory of our own, with an empty repository in which git runs.
type repository struct {
	dir string
}

func (r repository) git() string { return filepath.Join(r.dir, "repo.git") }

func (r repository) close() { _ = os.RemoveAll(r.dir) } // the next start empties its parent

// newRepository makes a repository with a hash function. Close it.
func (r *Reader) newRepository(format string) (repo repository, err error) {
	if repo.dir, err = os.MkdirTemp(r.Dir, "changes-*"); err == nil {
		err = os.Chmod(repo.dir, 0o711)
	}
	if err == nil {
		uid, gid := r.Git.Owner()
		err = errors.Join(os.Mkdir(repo.git(), 0o700), os.Lchown(repo.git(), uid, gid), r.Git.MakeStore(repo.git(), format))
	}
	if err != nil {
		repo.close()
		return repo, fmt.Errorf("prepare a repository for what changed: %w", err)
	}
	failpoint.Hit("changes/repository/made")
	return repo, nil
}
