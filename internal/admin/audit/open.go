package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/disk/durable"
)

// olderFile is a file that is not written any more.
type olderFile struct {
	name  string
	first int64 // the number of its first record
}

func nameOf(first int64) string { return fmt.Sprintf("audit-%016d.jsonl", first) }

// older lists the files that are not written any more, the oldest first.
func older(dir string) (list []olderFile, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		f := olderFile{name: e.Name()}
		if _, err := fmt.Sscanf(f.name, "audit-%d.jsonl", &f.first); err == nil && f.name == nameOf(f.first) {
			list = append(list, f)
		}
	}
	slices.SortFunc(list, func(a, b olderFile) int { return cmp.Compare(a.first, b.first) })
	return list, err
}

// open opens the current file, or makes it. It cuts off what an earlier failure or an
// earlier process left unfinished.
func (w *writer) open() error {
	if err := durable.MkdirAll(w.config.Dir, 0o700); err != nil {
		return err
	}
	if err := removeTemps(w.config.Dir); err != nil {
		return err
	}
	w.files.Lock()
	defer w.files.Unlock()
	f, err := os.OpenFile(filepath.Join(w.config.Dir, currentName), os.O_APPEND|os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return w.openNew()
	}
	if err != nil {
		return err
	}
	if err := w.resume(f); err != nil {
		return errors.Join(err, f.Close())
	}
	return nil
}

// removeTemps removes the temporary files that a crash has left. Only the writer makes some.
func removeTemps(dir string) error {
	temps, err := filepath.Glob(filepath.Join(dir, durable.TempPrefix+"*"))
	for _, path := range temps {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// openNew makes a current file beside the older ones, if there are any.
func (w *writer) openNew() error {
	last, err := w.lastOlder()
	if err != nil {
		return err
	}
	w.seq = max(w.seq, last.Seq)
	if err := w.create(); err != nil {
		w.drop()
		return err
	}
	if !w.begun {
		w.begin(last.Seq == 0 || last.Action == Stopped, 0)
	}
	return nil
}

// resume continues with the current file.
func (w *writer) resume(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if w.begun && info.Size() >= w.size { // this process has written it
		if err := f.Truncate(w.size); err != nil {
			return err
		}
		w.file = f
		return nil
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	last, end, err := lastLine(f, info.Size())
	if err != nil {
		return err
	}
	older, err := w.lastOlder()
	if err != nil {
		return err
	}
	w.seq = max(w.seq, last.Seq, older.Seq)
	if last.Seq == 0 && end > 0 { // nothing of it can be read: it is kept for people
		if err := errors.Join(f.Close(), w.putAside(w.seq+1)); err != nil {
			return err
		}
		w.seq++
		return w.openNew()
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	first, err := firstLine(f)
	if err != nil {
		return err
	}
	w.use(f, cmp.Or(first.Seq, w.seq+1), end)
	if last.Seq == 0 {
		last = older
	}
	if !w.begun {
		w.begin(last.Seq == 0 || last.Action == Stopped, info.Size()-end)
	}
	return nil
}

// lastOlder returns the last record of the older files. If it can't be read, the number is
// the file's.
func (w *writer) lastOlder() (last head, err error) {
	list, err := older(w.config.Dir)
	if err != nil || len(list) == 0 {
		return head{}, err
	}
	newest := list[len(list)-1]
	f, err := os.Open(filepath.Join(w.config.Dir, newest.name))
	if err != nil {
		return head{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return head{}, err
	}
	last, _, err = lastLine(f, info.Size())
	last.Seq = max(last.Seq, newest.first)
	return last, err
}

// maxTail is how much of the end of a file is searched for its last record.
const maxTail = 1 << 20

// lastLine returns the last record of a file, and where it ends. After a crash of the
// machine more than one line may be damaged. If there is no record, end is 0 if the file has
// no more than the beginning of a line, and else its size.
func lastLine(f *os.File, size int64) (last head, end int64, err error) {
	from := max(0, size-maxTail)
	data := make([]byte, size-from)
	if _, err := f.ReadAt(data, from); err != nil && err != io.EOF {
		return head{}, 0, err
	}
	rest := data[:bytes.LastIndexByte(data, '\n')+1]
	if len(rest) == 0 && from == 0 {
		return head{}, 0, nil
	}
	for len(rest) > 0 {
		start := bytes.LastIndexByte(rest[:len(rest)-1], '\n') + 1
		if h, ok := parse(rest[start:]); ok {
			return h, from + int64(len(rest)), nil
		}
		rest = rest[:start]
	}
	return head{}, size, nil
}

// firstLine returns the first record of a file; the zero value if there is none.
func firstLine(f *os.File) (head, error) {
	data := make([]byte, maxLine)
	n, err := f.ReadAt(data, 0)
	if err != nil && err != io.EOF {
		return head{}, err
	}
	line, _, _ := bytes.Cut(data[:n], []byte("\n"))
	h, _ := parse(line)
	return h, nil
}
