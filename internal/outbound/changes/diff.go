package changes

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
)

const (
	// maxDiffFile and maxDiff bound the size of a file in a patch, and of all, in bytes before
	// and after the change.
	maxDiffFile, maxDiff = 8 << 20, 128 << 20
	// maxDiffFiles bounds the files in a patch, because git writes some thousands a second.
	maxDiffFiles = 20_000
	// sniffed is how many bytes of a file git looks at to tell whether it is binary.
	sniffed = 8000
	// renameLimit bounds the pairs of files that are compared to find renames: a thousand
	// deleted files with a thousand added ones.
	renameLimit = 1000
	// maxRemarks bounds the lines about what is not in a patch, and maxRemarkBytes their size.
	maxRemarks, maxRemarkBytes = 10_000, 512 << 10
)

// Patch is the difference of two work trees, which git apply takes.
type Patch struct {
	reader  *Reader
	repo    repository
	stored  [2][]conversion // of the files before and after, by the number of their change; empty if there are none
	files   int             // in the patch
	remarks remarks
}

// remarks are lines about what is left out of an output, as many as maxRemarks and maxRemarkBytes allow.
type remarks struct {
	lines []string
	bytes int
	more  int // lines that are left out
}

func (r *remarks) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if len(r.lines) >= maxRemarks || r.bytes+len(line) > maxRemarkBytes {
		r.more++
		return
	}
	r.lines, r.bytes = append(r.lines, line), r.bytes+len(line)
}

// text returns the lines, each with a prefix.
func (r *remarks) text(prefix string) string {
	var b strings.Builder
	for _, line := range r.lines {
		b.WriteString(prefix + line + "\n")
	}
	if r.more > 0 {
		fmt.Fprintf(&b, "%sand %d more\n", prefix, r.more)
	}
	return b.String()
}

// Diff prepares a patch of what changed, with ignored files if ignored is set. format is the hash
// function of the repository's objects. Close the result.
func (r *Reader) Diff(ctx context.Context, src Source, format string, ignored bool) (p *Patch, err error) {
	set, err := r.Find(ctx, src)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	p = &Patch{reader: r}
	if p.repo, err = r.newRepository(format); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.Close()
			p = nil
		}
	}()
	for i, side := range []Side{src.Before, src.After} {
		if p.stored[i], err = p.conversions(ctx, side.Root, set, ignored); err != nil {
			return p, err
		}
	}
	c := git.Command{Op: "copy what changed", Heavy: true, Write: []string{p.repo.git()}, Dialog: true}
	c = r.Git.InStore(p.repo.git(), c, "fast-import", "--quiet", "--done", "--date-format=raw")
	c.Talk = git.Feed(func(ctx context.Context, w *bufio.Writer) error { return p.copy(ctx, src, set, ignored, w) })
	if _, err := r.Git.Run(ctx, c); err != nil {
		return p, err
	}
	failpoint.Hit("changes/diff/copied")
	for _, o := range set.Omitted {
		p.leaveOut(o.Path, o.Why)
	}
	if set.Truncated != "" {
		p.remark("not complete: %s", set.Truncated)
	}
	return p, nil
}

// Close removes what Diff has made.
func (p *Patch) Close() { p.repo.close() }

// remark adds a line about what is not in the patch.
func (p *Patch) remark(format string, args ...any) { p.remarks.add(format, args...) }

// names of the refs in the repository.
const before, after = "refs/heads/before", "refs/heads/after"

// inPatch yields the changes that can be in a patch. leftOut, if it is not nil, gets the others with the reason.
func (s *Set) inPatch(ctx context.Context, ignored bool, leftOut func(path, why string)) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		n := 0
		for c, err := range s.All {
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(Change{}, err)
				return
			}
			why := ""
			switch {
			case c.Ignored && !ignored:
				continue
			case c.Module != "":
				why = "it is in the submodule " + quoted(c.Module)
			case !allowedInGit(c.Path):
				why = "git allows no file of this name"
			case n == maxDiffFiles:
				why = fmt.Sprintf("a patch has at most %d files", maxDiffFiles)
			}
			if why != "" {
				if leftOut != nil {
					leftOut(c.Path, why)
				}
				continue
			}
			n++
			if !yield(c, nil) {
				return
			}
		}
	}
}

// leaveOut adds a line about a file that is not in the patch.
func (p *Patch) leaveOut(path, why string) { p.remark("left out: %s: %s", quoted(path), why) }

// conversion returns what git does to a file, before or after its change, to store it. n is the number of the change.
func (p *Patch) conversion(side, n int, kind shape) conversion {
	if kind != file || n >= len(p.stored[side]) {
		return conversion{}
	}
	return p.stored[side][n]
}

// copy writes the contents before and after, and the two trees, as a stream for git fast-import. The
// trees are kept in files meanwhile, because there may be many long paths.
func (p *Patch) copy(ctx context.Context, src Source, set *Set, ignored bool, w *bufio.Writer) error {
	s := &stream{
		Writer: w, patch: p, src: src, room: maxDiff,
		hashing: maxPointed, reading: maxConverted, pointers: make(map[string]bool), sizes: make(map[int64]bool), deleted: make(map[int]string),
	}
	for _, to := range []**bufio.ReadWriter{&s.before, &s.after} {
		f, err := unnamed(p.repo.dir)
		if err != nil {
			return err
		}
		defer f.Close()
		*to = bufio.NewReadWriter(bufio.NewReader(io.NewSectionReader(f, 0, math.MaxInt64)), bufio.NewWriter(f))
	}
	if err := s.findDeleted(ctx, set, ignored); err != nil {
		return err
	}
	n := 0
	for c, err := range set.inPatch(ctx, ignored, p.leaveOut) {
		if err == nil {
			err = s.change(ctx, n, c)
		}
		if err != nil {
			return err
		}
		n++
	}
	for ref, tree := range map[string]*bufio.ReadWriter{before: s.before, after: s.after} {
		fmt.Fprintf(w, "commit %s\ncommitter x <x> 0 +0000\ndata 0\n", ref)
		if err := tree.Flush(); err != nil {
			return err
		}
		if _, err := io.Copy(w, tree); err != nil {
			return err
		}
	}
	_, err := w.WriteString("done\n")
	return err
}

// stream writes the contents of changes.
type stream struct {
	*bufio.Writer
	patch         *Patch
	src           Source
	room          int64
	marks         int
	before, after *bufio.ReadWriter // the trees, as commands of git fast-import

	hashing  int64           // how many bytes of git-lfs's contents may be hashed
	reading  int64           // how many bytes may be read to be converted
	pointers map[string]bool // of contents that the repository has
	sizes    map[int64]bool  // of these contents
	deleted  map[int]string  // pointers of files before, by the number of their change
}

// change writes a file before and after its change, unless a limit or the content forbids that. n is the number of the
// change. The error is that of the writer, of the disk, or of the context.
func (s *stream) change(ctx context.Context, n int, c Change) error {
	var old, now content
	var err error
	if c.Kind != Added {
		if old, err = open(s.src.Before.Root, c.Path); err != nil {
			s.patch.leaveOut(c.Path, "it can't be read: "+errorText(err))
			return nil
		}
		defer old.Close()
	}
	if c.Kind != Deleted {
		if now, err = open(s.src.After.Root, c.Path); err != nil {
			s.patch.leaveOut(c.Path, "it can't be read: "+errorText(err))
			return nil
		}
		defer now.Close()
	}
	why, err := s.store(ctx, n, &old, &now)
	if err != nil {
		return err
	}
	if why != "" {
		s.patch.leaveOut(c.Path, why)
		return nil
	}
	size := old.size + now.size
	if size > s.room {
		s.patch.leaveOut(c.Path, fmt.Sprintf("the files of the patch have more than %d bytes", maxDiff))
		return nil
	}
	if old.sniff() || now.sniff() {
		from, to := quoted("a/"+c.Path), quoted("b/"+c.Path)
		if c.Kind == Added {
			from = "/dev/null"
		}
		if c.Kind == Deleted {
			to = "/dev/null"
		}
		s.patch.remark("Binary files %s and %s differ", from, to)
		return nil
	}
	s.room -= size
	s.patch.files++
	return errors.Join(s.blob(c.Path, old, s.before), s.blob(c.Path, now, s.after))
}

// sniff reports whether git would call a file binary. What it reads is read again later.
func (c *content) sniff() bool {
	if c.kind != file {
		return false
	}
	b := bufio.NewReaderSize(c.Reader, sniffed)
	c.Reader = b
	head, _ := b.Peek(int(min(sniffed, c.size)))
	return bytes.IndexByte(head, 0) >= 0
}

// blob writes a content, of exactly the size that it had when it was opened, and adds it to a tree.
func (s *stream) blob(path string, c content, to *bufio.ReadWriter) error {
	if c.kind == none {
		return nil
	}
	s.marks++
	fmt.Fprintf(to, "M %s :%d %s\n", c.gitMode(), s.marks, quotedRaw(path))
	fmt.Fprintf(s, "blob\nmark :%d\ndata %d\n", s.marks, c.size)
	cut, err := copyExactly(s, c)
	if cut {
		s.patch.remark("changed while it was read: %s", quoted(path))
	}
	_, err2 := s.WriteString("\n")
	return cmp.Or(err, err2)
}

// copyExactly writes as many bytes as a file had when it was opened, with zeros for those that are
// not there any more. cut reports whether there were any. The error is the writer's.
func copyExactly(w io.Writer, c content) (cut bool, err error) {
	in := &keepsError{r: io.LimitReader(c.Reader, c.size)}
	n, err := io.Copy(w, in)
	if err != nil && in.err == nil {
		return false, err
	}
	if n == c.size {
		return false, nil
	}
	_, err = io.CopyN(w, zeros{}, c.size-n)
	return true, err
}

// keepsError tells an error of a reader from one of a writer.
type keepsError struct {
	r   io.Reader
	err error
}

func (k *keepsError) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	if err != nil && err != io.EOF {
		k.err = err
	}
	return n, err
}

// zeros reads as zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Make compares the two trees, into a file of our own: so no reader decides how long git has its turn.
// A call that fails leaves nothing, and can be repeated.
func (p *Patch) Make(ctx context.Context) (err error) {
	if p.files == 0 {
		return nil
	}
	f, err := os.OpenFile(p.file(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make a patch: %w", err)
	}
	defer f.Close()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(p.file()))
		}
	}()
	c := git.Command{Op: "compare what changed", Heavy: true}
	c = p.reader.Git.InStore(p.repo.git(), c, "diff-tree", "-r", "-p", "--full-index", "-M", fmt.Sprintf("-l%d", renameLimit),
		"--no-ext-diff", "--no-textconv", "--no-color", "--text", "--src-prefix=a/", "--dst-prefix=b/", "--end-of-options", before, after)
	c.Talk = func(_ context.Context, _ io.WriteCloser, stdout io.Reader) error {
		_, err := io.Copy(f, stdout)
		return err
	}
	if _, err = p.reader.Git.Run(ctx, c); err != nil {
		return err
	}
	return os.RemoveAll(p.repo.git()) // a slow reader keeps one copy, not two
}

// file is the path of what Make has made.
func (p *Patch) file() string { return filepath.Join(p.repo.dir, "patch") }

// Write writes the patch, which Make has made. If it fails, a part of the patch may have been written.
func (p *Patch) Write(ctx context.Context, w io.Writer) error {
	if p.files > 0 {
		f, err := os.Open(p.file())
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := io.Copy(&stoppable{ctx, w}, f); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, p.remarks.text("# "))
	return err
}

// quoted writes a path so that it is one line of printable ASCII.
func quoted(path string) string { return strconv.QuoteToASCII(path) }

// quotedRaw quotes a path for git fast-import.
func quotedRaw(path string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// allowedInGit reports whether git can check out a path: no part of it may be .git on any
// filesystem. It refuses a few more names than git does.
func allowedInGit(path string) bool {
	for name := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		name = strings.Map(func(c rune) rune { // HFS+ ignores these
			if c >= 0x200c && c <= 0x200f || c >= 0x202a && c <= 0x202e || c >= 0x206a && c <= 0x206f || c == 0xfeff {
				return -1
			}
			return c
		}, name)
		name, _, _ = strings.Cut(strings.ToLower(name), ":")
		name = strings.TrimRight(name, " .")
		if name == ".git" || name == "git~1" {
			return false
		}
	}
	return true
}
