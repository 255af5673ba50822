package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitref"
)

const (
	// maxIgnore bounds a .gitignore, and maxIgnores all that are read.
	maxIgnore, maxIgnores = 1 << 20, 16 << 20
	// maxIgnoreDirs bounds the directories in which one is looked for, and those that are made for
	// the copies, because a container's directories cost it only their names.
	maxIgnoreDirs = 200_000
	// ignoreTime bounds how long git matches patterns, its wait for a turn included. A hundred thousand
	// paths take seconds, and some patterns take years.
	ignoreTime = 20 * time.Second
	ignoreName = ".gitignore"
)

var errIgnoreSlow = fmt.Errorf("to match the patterns of all such files takes more than %v: the files that they name are not all ignored", ignoreTime)

// ignore marks the added files that a .gitignore names. git decides that, in an empty repository
// whose work tree has nothing but copies of these files.
func (r *Reader) ignore(ctx context.Context, src Source, f *finder) error {
	var added []string
	for path, c := range f.found {
		if c.Kind == Added {
			added = append(added, path)
		}
	}
	if len(added) == 0 {
		return nil
	}
	slices.Sort(added)
	repo, err := r.newRepository(gitref.SHA1)
	if err != nil {
		return err
	}
	defer repo.close()
	work := filepath.Join(repo.dir, "work")
	n, err := f.copyIgnores(ctx, src, added, work, maxIgnoreDirs)
	if err != nil || n == 0 {
		return err
	}
	failpoint.Hit("changes/ignore/copied")
	var stdin strings.Builder
	for _, p := range added {
		stdin.WriteString(here + p + "\x00")
	}
	limited, stop := context.WithTimeoutCause(ctx, ignoreTime, errIgnoreSlow)
	defer stop()
	c := git.Command{Op: "find ignored files", Heavy: true, Read: []string{work}, Stdin: stdin.String()}
	c = r.Git.InStore(repo.git(), c, "--work-tree="+work, "check-ignore", "-z", "--stdin", "--no-index")
	err = r.Git.EachRecord(limited, c, 0, func(path string) error {
		path = strings.TrimPrefix(path, here)
		if c, ok := f.found[path]; ok {
			c.Ignored = true
			f.found[path] = c
		}
		return nil
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

// here begins each path for git, because one that begins with a colon has another meaning.
const here = "./"

// exitCoder is the error of a process that ended with a status.
type exitCoder interface {
	error
	ExitCode() int
}

// copyIgnores copies the .gitignore files that matter for some paths, and returns how many there
// are. It looks at most directories, and makes as many.
func (f *finder) copyIgnores(ctx context.Context, src Source, paths []string, work string, most int) (n int, err error) {
	if err := os.Mkdir(work, 0o755); err != nil {
		return 0, err
	}
	dirs, made, room := map[string]bool{}, 0, int64(maxIgnores)
	for _, p := range paths {
		for dir := path.Dir(p); !dirs[dir]; dir = path.Dir(dir) {
			if len(dirs) == most {
				f.omit(path.Join(dir, ignoreName), fmt.Sprintf("files that it and others name are not ignored: files were added in more than %d directories", most))
				return n, nil
			}
			dirs[dir] = true
			data, err := readSmall(src.Merged, path.Join(dir, ignoreName), min(room, maxIgnore))
			switch {
			case absent(err):
				continue
			case err != nil:
				f.omit(path.Join(dir, ignoreName), "files that it names are not ignored: "+errorText(err))
				continue
			}
			if made += strings.Count(dir, "/") + 1; made > most {
				f.omit(path.Join(dir, ignoreName), "files that it names are not ignored: there are too many such files")
				continue
			}
			room -= int64(len(data))
			to := filepath.Join(work, dir)
			if err := errors.Join(os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, ignoreName), data, 0o644)); errors.Is(err, unix.ENAMETOOLONG) {
				continue
			} else if err != nil {
				return n, err
			}
			n++
		}
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
	}
	return n, nil
}

var errLarge = fmt.Errorf("it is larger than %d bytes, or all are larger than %d", maxIgnore, maxIgnores)

// readSmall reads a regular file of at most limit bytes.
func readSmall(root *os.File, path string, limit int64) ([]byte, error) {
	f, err := disk.Open(root, path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if e := entryOf(f); e.err != nil || e.kind != file {
		return nil, errors.Join(e.err, os.ErrNotExist)
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
