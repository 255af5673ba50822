package hostile

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// repo builds a bare repository. After the first error, which it keeps, its methods do nothing.
type repo struct {
	path string
	head string
	err  error
	zip  *zlib.Writer
}

// Modes of tree entries.
const (
	file   = "100644"
	script = "100755"
	link   = "120000"
	tree   = "40000"
	gitl   = "160000" // a submodule: the content is the commit's ID
)

// nowhere is the well-formed ID of an object that does not exist.
const nowhere = "00000000000000000000000000000000deadbeef"

// entry is an entry of a tree. It has the object id or, if that is empty, a blob with the content.
type entry struct {
	mode, name, content, id string
}

func create(path string) *repo {
	r := &repo{path: path}
	if r.err = os.Mkdir(path, 0o755); r.err != nil {
		return r
	}
	for _, dir := range []string{"objects/pack", "refs/heads"} {
		r.check(os.MkdirAll(filepath.Join(path, dir), 0o755))
	}
	r.write("HEAD", "ref: refs/heads/main\n")
	r.write("config", "[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
	return r
}

// side makes another repository next to this one: `<name>-<suffix>.git`.
func (r *repo) side(suffix string) *repo {
	other := create(strings.TrimSuffix(r.path, ".git") + "-" + suffix + ".git")
	r.check(other.err)
	return other
}

// relative returns the relative URL of a side repository.
func (r *repo) relative(side *repo) string {
	return "../" + strings.TrimSuffix(filepath.Base(side.path), ".git")
}

func (r *repo) check(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *repo) write(name, content string) {
	path := filepath.Join(r.path, name)
	r.check(os.MkdirAll(filepath.Dir(path), 0o755))
	r.check(os.WriteFile(path, []byte(content), 0o644))
}

// object writes a loose object and returns its ID. It calls content twice.
func (r *repo) object(kind string, size int64, content func() io.Reader) string {
	header := fmt.Sprintf("%s %d\x00", kind, size)
	hash := sha1.New()
	io.WriteString(hash, header)
	if _, err := io.Copy(hash, content()); err != nil {
		r.check(err)
		return ""
	}
	id := hex.EncodeToString(hash.Sum(nil))
	path := filepath.Join(r.path, "objects", id[:2], id[2:])
	if _, err := os.Stat(path); err == nil || r.err != nil {
		return id
	}
	r.check(os.MkdirAll(filepath.Dir(path), 0o755))
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		r.check(err)
		return id
	}
	if r.zip == nil {
		r.zip, _ = zlib.NewWriterLevel(out, zlib.BestSpeed) // the level is valid
	}
	zip := r.zip // a new one costs more than most objects
	zip.Reset(out)
	_, err = io.WriteString(zip, header)
	r.check(err)
	_, err = io.Copy(zip, content())
	r.check(err)
	r.check(zip.Close())
	r.check(out.Close())
	return id
}

func (r *repo) bytes(kind string, content []byte) string {
	return r.object(kind, int64(len(content)), func() io.Reader { return bytes.NewReader(content) })
}

func (r *repo) blob(content string) string { return r.bytes("blob", []byte(content)) }

// zeros writes a blob of zeros, which compress a thousandfold.
func (r *repo) zeros(size int64) string {
	return r.object("blob", size, func() io.Reader { return io.LimitReader(zero{}, size) })
}

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// raw writes a tree with exactly these entries, in this order.
func (r *repo) raw(entries ...entry) string {
	var b bytes.Buffer
	for _, e := range entries {
		id := e.id
		if id == "" && e.mode == gitl {
			id = e.content
		} else if id == "" {
			id = r.blob(e.content)
		}
		sum, err := hex.DecodeString(id)
		r.check(err)
		fmt.Fprintf(&b, "%s %s\x00%s", e.mode, e.name, sum)
	}
	return r.bytes("tree", b.Bytes())
}

// tree writes a tree, and those below it, from entries whose names are paths, in git's order.
func (r *repo) tree(entries ...entry) string {
	below := map[string][]entry{}
	var lines []entry
	for _, e := range entries {
		dir, rest, nested := strings.Cut(e.name, "/")
		if !nested {
			lines = append(lines, e)
			continue
		}
		if below[dir] == nil {
			lines = append(lines, entry{mode: tree, name: dir})
		}
		e.name = rest
		below[dir] = append(below[dir], e)
	}
	for i, e := range lines {
		if e.mode == tree && e.id == "" {
			lines[i].id = r.tree(below[e.name]...)
		}
	}
	slices.SortStableFunc(lines, func(a, b entry) int { return strings.Compare(sortKey(a), sortKey(b)) })
	return r.raw(lines...)
}

func sortKey(e entry) string {
	if e.mode == tree {
		return e.name + "/"
	}
	return e.name
}

// commit writes a commit of a tree and points main to it.
func (r *repo) commit(treeID string) string {
	return r.commitAs(treeID, "Eve Example <eve@example.com> 1700000000 +0000", "begin\n")
}

func (r *repo) commitAs(treeID, who, message string) string {
	parent := ""
	if r.head != "" {
		parent = "parent " + r.head + "\n"
	}
	r.head = r.bytes("commit", fmt.Appendf(nil, "tree %s\n%sauthor %s\ncommitter %s\n\n%s", treeID, parent, who, who, message))
	r.ref("refs/heads/main", r.head)
	return r.head
}

// files commits a tree of paths.
func (r *repo) files(entries ...entry) string { return r.commit(r.tree(entries...)) }

func (r *repo) ref(name, id string) { r.write(name, id+"\n") }
