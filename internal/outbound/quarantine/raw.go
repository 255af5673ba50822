package quarantine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/internal/work"
)

// These, but for maxSearched, are multiplied: see Taken.most, and for maxListed Taken.factor.
const (
	maxAttributes = 20_000  // files named .gitattributes in the tree of a commit
	maxSearched   = 1 << 20 // bytes of a .gitattributes; git looks into a larger one
	maxCommits    = 200_000 // new ones
	maxChanges    = 200_000 // changed files of all new commits, with some 150 bytes each
	// maxNames bounds the names of the files of each kind, in bytes: a tree of ten objects can have a million files
	// with names of 4 KB.
	maxNames = 16 << 20
	// maxListed bounds what git lists, in bytes, whether it matters or not: fifteen trees can have 10^15 files.
	maxListed = 256 << 20
)

// maxJudged bounds the branches whose files are listed, one after the other.
const maxJudged = 1000

// smallPart is the part of the limits with which lists take no turn: 5,000 files, and names of 400 KiB.
const smallPart = 40

// lists limits how many pushes keep long lists at a time, because each may take 64 MiB of memory: two, because each gives
// way at once.
var lists = work.Limits{Slots: 1, PerSubject: 1, Overdue: 1}

// withLists calls f, which keeps lists of files that are limited by most: first with a small part of the limits, and if
// those are exceeded, once more in a turn of lists.
func (t *Taken) withLists(ctx context.Context, f func() error) error {
	t.small = true
	err := f()
	t.small = false
	if refused := (*Refusal)(nil); !errors.As(err, &refused) || refused.Why != TooLarge || refused.always {
		return err
	}
	turn, err := t.large.Acquire(ctx, work.CPU, false)
	if err != nil {
		return err
	}
	defer turn.Release()
	return f()
}

// treeFile is a file of a commit.
type treeFile struct{ id, path string }

// Raw returns the new files that have contents where .gitattributes wants pointers of git-lfs: those of
// one branch that has any. The attributes for the commits of a branch are those of its newest one. In
// a repository without git-lfs, each branch costs a list of that commit's files.
func (t *Taken) Raw(ctx context.Context) (list []string, err error) {
	if t.Objects == 0 {
		return nil, nil
	}
	branches := slices.Clone(t.Branches)
	slices.SortFunc(branches, func(a, b Branch) int { return strings.Compare(a.ID, b.ID) })
	branches = slices.CompactFunc(branches, func(a, b Branch) bool { return a.ID == b.ID })
	if len(branches) > maxJudged {
		return nil, refuse(TooLarge, "there are more than %d branches with new commits, so it can't be checked whether "+
			"files that .gitattributes gives to git-lfs are pointers: name one branch, or give --without-lfs, which does not check that", maxJudged)
	}
	for _, b := range branches {
		err = t.withLists(ctx, func() (err error) {
			list, err = t.raw(ctx, b)
			return err
		})
		if err != nil || len(list) > 0 {
			return list, err
		}
	}
	return nil, nil
}

func (t *Taken) raw(ctx context.Context, b Branch) (list []string, err error) {
	attributes, err := t.attributes(ctx, b)
	if err != nil || attributes == nil {
		return nil, t.incomplete(err)
	}
	files, err := t.changes(ctx, b)
	if err == nil {
		files, err = t.filteredByLFS(ctx, attributes, files)
	}
	if err == nil {
		files, err = t.onlyNew(ctx, files)
	}
	if err == nil {
		files, err = t.notPointers(ctx, files)
	}
	for _, f := range files {
		list = append(list, f.path)
	}
	slices.Sort(list)
	return slices.Compact(list), t.incomplete(err)
}

// RefuseRaw returns the error for files that Raw returned.
func RefuseRaw(list []string) *Refusal {
	return refuse(Unusable, "the commits have the contents of %d files that .gitattributes gives to git-lfs, such as %s: "+
		"put pointers in their place in the container (git add --renormalize, and amend the commit that adds them; or git lfs migrate import), "+
		"or leave them as they are with --without-lfs", len(list), printable(list[0]))
}

// attributes returns all .gitattributes of a branch's commit, or nil if none mentions git-lfs.
func (t *Taken) attributes(ctx context.Context, b Branch) (list []treeFile, err error) {
	c, names, listed := t.in(t.checked(), git.Command{Op: opTake, Heavy: true}, "ls-tree", "-r", "-z", b.ID), 0, 0
	err = t.git.EachRecord(ctx, c, 0, func(entry string) error {
		if listed += len(entry); listed > maxListed*t.factor() {
			return t.tooLong("the branch's files")
		}
		about, name, _ := strings.Cut(entry, "\t") // mode, type, ID
		if f := strings.Fields(about); path.Base(name) == ".gitattributes" && len(f) == 3 && strings.HasPrefix(f[0], "100") {
			names += len(name)
			if list = append(list, treeFile{strings.Clone(f[2]), strings.Clone(name)}); len(list) > t.most(maxAttributes) || names > t.most(maxNames) {
				return t.tooMany("the branch has", maxAttributes, "files named .gitattributes")
			}
		}
		return nil
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	distinct := slices.Clone(list)
	slices.SortFunc(distinct, func(a, b treeFile) int { return strings.Compare(a.id, b.id) })
	distinct = slices.CompactFunc(distinct, func(a, b treeFile) bool { return a.id == b.id })
	mentioned := false
	err = t.eachBlob(ctx, distinct, maxSearched, func(_ treeFile, size int64, data []byte) {
		mentioned = mentioned || size >= maxSearched || lfs.Mentioned(data)
	})
	if err != nil || !mentioned {
		return nil, err
	}
	return list, nil
}

func (t *Taken) tooMany(have string, max int, what string) *Refusal {
	return refuse(TooLarge, "%s more than %d %s, or names of more than %d bytes (setting PUSH_MAX_SIZE), so it can't be checked whether files that .gitattributes gives to git-lfs are pointers: "+
		"give --without-lfs, which does not check that", have, t.most(max), what, t.most(maxNames))
}

func (t *Taken) tooLong(list string) *Refusal {
	r := refuse(TooLarge, "a list of %s has more than %d bytes (setting PUSH_MAX_SIZE), so it can't be checked whether files that .gitattributes gives to git-lfs are pointers: "+
		"give --without-lfs, which does not check that", list, maxListed*t.factor())
	r.always = true
	return r
}

// changes returns the regular files that the new commits of a branch add or change. A merge has only those that
// differ from all its parents, because the others are in a parent.
func (t *Taken) changes(ctx context.Context, b Branch) (list []treeFile, err error) {
	var commits objectIDs
	c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Input: t.wantsOf(b)}, "rev-list", "--stdin")
	if err := t.git.EachRecord(ctx, c, '\n', func(id string) error {
		if !gitref.IsObjectID(id) {
			return fmt.Errorf("rev-list: unexpected line %.100q", id)
		}
		commits.size = len(id) / 2
		if commits.add([]byte(id)); commits.Len() > t.most(maxCommits) {
			return t.tooMany("there are", maxCommits, "new commits")
		}
		return nil
	}); err != nil {
		return nil, err
	}
	c = t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Input: commits.lines("")},
		"diff-tree", "--stdin", "-r", "-c", "-z", "--root", "--raw", "--no-renames", "--no-abbrev", "--no-commit-id")
	known, id, names, listed := make(map[treeFile]bool), "", 0, 0
	err = t.git.EachRecord(ctx, c, 0, func(record string) (err error) {
		if listed += len(record); listed > maxListed*t.factor() {
			return t.tooLong("what the new commits change")
		}
		if id == "" {
			id, err = newSide(record)
			return err
		}
		f := treeFile{id, record}
		id = ""
		if f.id != ignored && !known[f] {
			known[f] = true
			names += len(f.path)
			if list = append(list, f); len(list) > t.most(maxChanges) || names > t.most(maxNames) {
				return t.tooMany("the new commits change", maxChanges, "files")
			}
		}
		return nil
	})
	return list, err
}

// ignored is what newSide returns for what is not a regular file.
const ignored = "-"

// newSide returns the ID of the new file of a change as git diff-tree prints it: a colon for each
// parent, the modes of the parents and the new one, as many IDs, the status.
func newSide(record string) (string, error) {
	parents := len(record) - len(strings.TrimLeft(record, ":"))
	fields := strings.Fields(record[parents:])
	if parents == 0 || len(fields) != 2*(parents+1)+1 || !gitref.IsObjectID(fields[2*parents+1]) {
		return "", fmt.Errorf("diff-tree: unexpected record %.100q", record)
	}
	if !strings.HasPrefix(fields[parents], "100") {
		return ignored, nil
	}
	return strings.Clone(fields[2*parents+1]), nil // without the rest of the record
}

// filteredByLFS returns the files that attributes give to git-lfs. git reads those from an index that
// has nothing else.
func (t *Taken) filteredByLFS(ctx context.Context, attributes, files []treeFile) (filtered []treeFile, err error) {
	if len(files) == 0 {
		return nil, nil
	}
	entries := &lineReader{n: len(attributes), add: func(line []byte, i int) []byte {
		return fmt.Appendf(line, "100644 %s\t%s\x00", attributes[i].id, attributes[i].path)
	}}
	paths := &lineReader{n: len(files), add: func(line []byte, i int) []byte { return append(append(line, files[i].path...), 0) }}
	file := filepath.Join(t.checked(), "attributes-index")
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // that of another branch
		return nil, err
	}
	index := []string{"GIT_INDEX_FILE=" + file}
	c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Env: index, Input: entries, Write: []string{t.checked()}}, "update-index", "-z", "--index-info")
	if _, err := t.git.Run(ctx, c); err != nil {
		return nil, err
	}
	c = t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Env: index, Input: paths}, "check-attr", "--cached", "-z", "--stdin", "filter")
	n := 0
	err = t.git.EachRecord(ctx, c, 0, func(field string) error { // path, "filter", value
		if n/3 == len(files) {
			return errors.New("check-attr: more answers than paths")
		}
		if n%3 == 2 && field == "lfs" {
			filtered = append(filtered, files[n/3])
		}
		n++
		return nil
	})
	if err == nil && n != 3*len(files) {
		err = fmt.Errorf("check-attr: %d fields for %d paths", n, len(files))
	}
	return filtered, err
}

// onlyNew returns the files whose contents the layer does not have: what the remote has had before
// is not judged.
func (t *Taken) onlyNew(ctx context.Context, files []treeFile) (list []treeFile, err error) {
	old := make(map[string]bool)
	// Only the objects of the layer are looked up.
	err = t.sizes(ctx, files, []string{"GIT_OBJECT_DIRECTORY=" + t.base()}, func(f treeFile, _ int64) { old[f.id] = true })
	return slices.DeleteFunc(files, func(f treeFile) bool { return old[f.id] }), err
}

// notPointers returns the files that are neither empty nor pointers.
func (t *Taken) notPointers(ctx context.Context, files []treeFile) (list []treeFile, err error) {
	err = t.eachBlob(ctx, files, lfs.MaxPointer, func(f treeFile, size int64, data []byte) {
		if size > 0 && !lfs.IsPointer(data) {
			list = append(list, f)
		}
	})
	return list, err
}

// sizes calls f with the size of each file, and leaves out those whose objects are missing.
func (t *Taken) sizes(ctx context.Context, files []treeFile, env []string, f func(file treeFile, size int64)) error {
	if len(files) == 0 {
		return nil
	}
	n := 0
	c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Env: env, Input: idsOf(files)}, "cat-file", "--batch-check=%(objecttype) %(objectsize)")
	return t.git.EachRecord(ctx, c, '\n', func(line string) error {
		if n == len(files) {
			return errors.New("cat-file: more lines than objects")
		}
		var size int64
		if _, err := fmt.Sscanf(line, "blob %d", &size); err == nil { // otherwise "<ID> missing"
			f(files[n], size)
		}
		n++
		return nil
	})
}

// idsOf returns a reader of the files' IDs, one a line.
func idsOf(files []treeFile) io.Reader {
	return &lineReader{n: len(files), add: func(line []byte, i int) []byte { return append(append(line, files[i].id...), '\n') }}
}

// eachBlob calls f with the size and the content of each file, or without the content if it has max
// bytes or more. It leaves out those that a partial clone does not have.
func (t *Taken) eachBlob(ctx context.Context, files []treeFile, max int64, f func(file treeFile, size int64, data []byte)) error {
	var small []treeFile // cat-file would send all of a large one
	if err := t.sizes(ctx, files, nil, func(file treeFile, size int64) {
		if size < max {
			small = append(small, file)
		} else {
			f(file, size, nil)
		}
	}); err != nil || len(small) == 0 {
		return err
	}
	c := t.in(t.checked(), git.Command{Op: opTake, Heavy: true, Input: idsOf(small)}, "cat-file", "--batch")
	c.Talk = func(_ context.Context, _ io.WriteCloser, stdout io.Reader) error {
		r := bufio.NewReader(stdout)
		for _, file := range small {
			data, _, err := readObject(r, max)
			if err != nil {
				return err
			}
			f(file, int64(len(data)), data)
		}
		_, err := io.Copy(io.Discard, r)
		return err
	}
	_, err := t.git.Run(ctx, c)
	return err
}
