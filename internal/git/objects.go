package git

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// maxBlobs bounds the files that are fetched by ID. The plugin can't check out an index of
// more files.
const maxBlobs = 2_000_000

// checkBlobs returns an error for a list of more files.
func (g *Git) checkBlobs(ids []string) error {
	if most := g.config.SizeFactor.Of(maxBlobs); len(ids) > most {
		return fmt.Errorf("more than %d files are missing %s", most, SizeSetting)
	}
	return nil
}

// MissingBlobs returns the IDs of the files in a commit's cone whose contents the store
// does not have, each once. Its cost is proportional to the objects in the store, not to
// the paths: ten trees can have 10^15 paths.
func (g *Git) MissingBlobs(ctx context.Context, store, commit string, cone gitindex.Cone) ([]string, error) {
	if cone == nil {
		return g.missingBelow(ctx, store, []string{commit + "^{tree}"})
	}
	trees, files, err := g.coneTops(ctx, store, commit, cone)
	if err != nil {
		return nil, err
	}
	slices.Sort(files)
	missing, err := g.missingOf(ctx, store, slices.Compact(files))
	if err != nil || len(trees) == 0 {
		return missing, err
	}
	below, err := g.missingBelow(ctx, store, trees)
	missing = append(missing, below...)
	slices.Sort(missing)
	return slices.Compact(missing), err
}

// missingBelow returns the IDs of the missing files below trees.
func (g *Git) missingBelow(ctx context.Context, store string, trees []string) ([]string, error) {
	c := Command{Op: "look for the files of " + trees[0], Heavy: true, Stdin: strings.Join(trees, "\n") + "\n"}
	c = g.InStore(store, c, "rev-list", "--objects", "--no-walk", "--quiet", "--missing=print", "--stdin")
	return g.missing(ctx, c, func(line string) (id string, ok bool) { return strings.CutPrefix(line, "?") })
}

// missingOf returns the IDs that the store does not have.
func (g *Git) missingOf(ctx context.Context, store string, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	c := Command{Op: "look for files", Heavy: true, Stdin: strings.Join(ids, "\n") + "\n"}
	c = g.InStore(store, c, "cat-file", "--batch-check=%(objectname)")
	return g.missing(ctx, c, func(line string) (id string, ok bool) { return strings.CutSuffix(line, " missing") })
}

// missing returns the IDs in those lines of a command's output that parse accepts.
func (g *Git) missing(ctx context.Context, c Command, parse func(line string) (id string, ok bool)) (ids []string, err error) {
	err = g.EachRecord(ctx, c, '\n', func(line string) error {
		if id, ok := parse(line); ok {
			ids = append(ids, id)
		}
		return g.checkBlobs(ids)
	})
	return ids, err
}

// coneTops returns the IDs of the trees that are completely in a cone, and of the files
// directly in their parent directories.
func (g *Git) coneTops(ctx context.Context, store, commit string, cone gitindex.Cone) (trees, files []string, err error) {
	roots := cone.Roots()
	list := func(dirs ...string) error {
		args := append([]string{"--literal-pathspecs", "ls-tree", "-z", "--full-tree", commit, "--"}, dirs...)
		c := g.InStore(store, Command{Op: "list the files of " + commit, Heavy: true}, args...)
		return g.EachRecord(ctx, c, 0, func(entry string) error {
			info, name, ok := strings.Cut(entry, "\t")
			fields := strings.Fields(info) // mode, type, ID
			if !ok || len(fields) != 3 || !gitref.IsObjectID(fields[2]) {
				return fmt.Errorf("ls-tree %s: unexpected entry %q", commit, entry)
			}
			switch _, found := slices.BinarySearch(roots, name); {
			case fields[1] == "blob":
				files = append(files, fields[2])
			case fields[1] == "tree" && found:
				trees = append(trees, fields[2])
			}
			return g.checkBlobs(files)
		})
	}
	if err := list(); err != nil {
		return nil, nil, err
	}
	var above []string
	for _, dir := range cone.Parents() {
		above = append(above, dir+"/")
	}
	if len(above) > 0 {
		err = list(above...)
	}
	return trees, files, err
}

// maxRecord bounds one record: a path has at most 4 KiB on Linux, and a tree with a
// longer one can't be checked out.
const maxRecord = 1 << 20

// EachRecord runs c and calls f for each record of its output, each ended by the byte
// end. The output may be larger than what Run returns.
func (g *Git) EachRecord(ctx context.Context, c Command, end byte, f func(record string) error) error {
	c.Talk = func(_ context.Context, _ io.WriteCloser, stdout io.Reader) error { return eachRecord(stdout, end, f) }
	_, err := g.Run(ctx, c)
	return err
}

// EachAnswer is EachRecord for a command that reads what ask writes. ask runs beside f.
func (g *Git) EachAnswer(ctx context.Context, c Command, end byte, ask func(context.Context, *bufio.Writer) error, f func(record string) error) error {
	c.Dialog = true
	c.Talk = func(ctx context.Context, stdin io.WriteCloser, stdout io.Reader) error {
		asked := make(chan error, 1)
		go func() {
			defer stdin.Close()
			w := bufio.NewWriterSize(stdin, 64<<10)
			err := ask(ctx, w)
			if err == nil {
				err = w.Flush()
			}
			if errors.Is(err, syscall.EPIPE) { // the command has ended, and says why
				err = nil
			}
			asked <- err
		}()
		err := eachRecord(stdout, end, f)
		if err != nil {
			stdin.Close() // ends a write
		}
		return cmp.Or(err, <-asked)
	}
	_, err := g.Run(ctx, c)
	return err
}

// eachRecord calls f for each record of r.
func eachRecord(r io.Reader, end byte, f func(record string) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxRecord)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, end); i >= 0 {
			return i + 1, data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return 0, nil, io.ErrUnexpectedEOF // git terminates every record
		}
		return 0, nil, nil
	})
	for s.Scan() {
		if err := f(s.Text()); err != nil {
			return err
		}
	}
	return s.Err()
}
