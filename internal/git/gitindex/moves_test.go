package gitindex

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// repository is a repository with an index, which only git writes.
type repository struct {
	t      testing.TB
	dir    string
	config []string
	idSize int
}

func newRepository(t testing.TB, format string, cone Cone) *repository {
	t.Helper()
	r := &repository{t: t, dir: t.TempDir(), idSize: map[string]int{"sha1": 20, "sha256": 32}[format]}
	r.git("", "init", "-q", "--object-format="+format)
	r.config = []string{"-c", "index.version=2"}
	if cone != nil {
		r.config = append(r.config, "-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=true", "-c", "index.sparse=false")
		r.write("info/sparse-checkout", cone.Patterns())
	}
	return r
}

// git runs git in the repository, and returns its output.
func (r *repository) git(stdin string, args ...string) string {
	r.t.Helper()
	cmd := testgit.Command(r.dir, slices.Concat(r.config, args)...)
	cmd.Stdin = strings.NewReader(stdin)
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s%s", strings.Join(args, " "), err, out, words.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (r *repository) write(name string, data []byte) {
	r.t.Helper()
	path := filepath.Join(r.dir, ".git", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// indexOf makes git write a new index of files, each with its mode and object ID.
func (r *repository) indexOf(files map[string]string) {
	r.t.Helper()
	var stdin strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		stdin.WriteString(files[name] + "\t" + name + "\x00")
	}
	r.git("", "read-tree", "--empty")
	r.git(stdin.String(), "update-index", "-z", "--index-info")
}

// checkOut makes git write the files of a tree and a new index.
func (r *repository) checkOut(tree string) {
	r.t.Helper()
	list, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, d := range list {
		if d.Name() != ".git" {
			if err := os.RemoveAll(filepath.Join(r.dir, d.Name())); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	r.git("", "read-tree", "--empty")
	r.git("", "read-tree", "-m", "-u", tree)
}

// read returns the data of the index.
func (r *repository) read() []byte {
	r.t.Helper()
	data, err := os.ReadFile(filepath.Join(r.dir, ".git", "index"))
	if err != nil {
		r.t.Fatal(err)
	}
	return data
}

// parse returns the index.
func (r *repository) parse() *Index {
	r.t.Helper()
	ix, err := Parse(r.read(), r.idSize)
	if err != nil {
		r.t.Fatal(err)
	}
	return ix
}

// bare returns the data of the index without stat data.
func (r *repository) bare() []byte {
	r.t.Helper()
	ix := r.parse()
	for _, e := range ix.Entries {
		e.SetStat(&unix.Stat_t{})
	}
	return encode(r.t, ix)
}

func encode(t testing.TB, ix *Index) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := ix.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// changes returns the difference between two trees.
func (r *repository) changes(from, to string) *Changes {
	r.t.Helper()
	ch, info := new(Changes), ""
	for field := range strings.SplitSeq(strings.TrimSuffix(r.git("", "diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", from, to), "\x00"), "\x00") {
		if info == "" {
			info = field
			continue
		}
		if err := ch.Add(info, field); err != nil {
			r.t.Fatal(err)
		}
		info = ""
	}
	return ch
}

// TestMovesMatchGit changes an index from one random tree to the next, many times. Each time
// it must be identical to git's index of that tree. git must write the same tree from it,
// and find no damage in it, and no change in the files that git wrote.
func TestMovesMatchGit(t *testing.T) {
	const transitions = 60 // in each repository
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i, format := range []string{"sha1", "sha256"} {
		for j, cone := range []Cone{nil, {"a"}, {"a/b", "b", "long/er"}} {
			t.Run(fmt.Sprintf("%s %q", format, cone), func(t *testing.T) {
				short.OneOf(t, 3)
				random := rand.New(rand.NewPCG(seed, uint64(10*i+j)))
				r := newRepository(t, format, cone)
				r.git("", "hash-object", "-t", "tree", "-w", "--stdin") // write-tree does not write the empty tree, and fsck misses it
				var infos []string
				for _, content := range []string{"", "one\n", "two\n", "a/b"} {
					id := r.git(content, "hash-object", "-w", "--stdin")
					infos = append(infos, "100644 "+id, "100755 "+id)
					if content != "" {
						infos = append(infos, "120000 "+id)
					}
				}
				infos = append(infos, "160000 "+strings.Repeat("12", r.idSize), "160000 "+strings.Repeat("34", r.idSize))
				files := make(map[string]string)
				r.indexOf(files)
				tree := r.git("", "write-tree")
				r.checkOut(tree)
				ours := r.bare()
				for range transitions {
					drawFiles(random, files, infos)
					was := tree
					r.indexOf(files)
					tree = r.git("", "write-tree")
					r.checkOut(tree)
					want := r.bare()
					ours = r.move(ours, was, tree, cone)
					if !bytes.Equal(ours, want) {
						t.Fatalf("from %s to %s:\n%q\nwant:\n%q", was, tree, ours, want)
					}
					r.write("index", ours)
					if got := r.git("", "write-tree"); got != tree {
						t.Fatalf("the index has the tree %s, want %s", got, tree)
					}
				}
				r.git("", "update-ref", "HEAD", r.git("", "commit-tree", "-m", "m", tree))
				r.git("", "fsck", "--no-dangling")
				if got := r.git("", "status", "--porcelain", "--ignore-submodules=all"); got != "" {
					t.Errorf("status:\n%s", got)
				}
			})
		}
	}
}

// move changes an index from one tree to another, as a checkout does.
func (r *repository) move(data []byte, from, to string, cone Cone) []byte {
	r.t.Helper()
	ix, err := Parse(data, r.idSize)
	if err != nil {
		r.t.Fatal(err)
	}
	ch, added := r.changes(from, to), New(r.idSize)
	if n, info := ch.Files(); n > 0 {
		r.git("", "read-tree", "--empty")
		r.git(info, "update-index", "-z", "--index-info")
		added = r.parse()
	}
	added.LeaveOut(cone)
	if _, err := ix.Apply(ch, added, to); err != nil {
		r.t.Fatalf("from %s to %s: %v", from, to, err)
	}
	return encode(r.t, ix)
}

// drawFiles changes some of the files at random, few or many.
func drawFiles(random *rand.Rand, files map[string]string, infos []string) {
	names := []string{
		"a", "a/b", "a/b/c", "a/b/d", "a/bb", "a/x/y/z", "a/x/y/z/a/b/c", "a-", "a.b", "b", "b/c", "b/c/d", "b/c.d", "c", "long/er", "long/est/f",
		".gitignore", "n\nl", "ä", "\xff\xfe", strings.Repeat("n", 200), strings.Repeat(strings.Repeat("m", 250)+"/", 12) + "m",
	}
	if random.IntN(20) == 0 {
		clear(files)
	}
	for range 1 + random.IntN(6) {
		name := names[random.IntN(len(names))]
		for other := range files { // remove what is in the way
			if below(name, other) || below(other, name) {
				delete(files, other)
			}
		}
		if random.IntN(4) > 0 {
			files[name] = infos[random.IntN(len(infos))]
		}
	}
}

// TestAddMatchesGit checks that the entries of Add are identical to git's.
func TestAddMatchesGit(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		r := newRepository(t, format, nil)
		id := r.git("x\n", "hash-object", "-w", "--stdin")
		files := make(map[string]string)
		for i, mode := range []string{"100644", "100755", "120000", "160000"} {
			for length := range 12 { // every length modulo 8
				files[fmt.Sprint(i)+strings.Repeat("n", length)] = mode + " " + id
			}
		}
		files["long/"+strings.Repeat("n", 4200)] = "100644 " + id
		r.indexOf(files)
		ix := New(r.idSize)
		for entry := range strings.SplitSeq(strings.TrimSuffix(r.git("", "ls-files", "-z", "--stage"), "\x00"), "\x00") {
			info, name, _ := strings.Cut(entry, "\t")
			if err := ix.Add(info, name); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := encode(t, ix), r.bare(); !bytes.Equal(got, want) {
			t.Errorf("%s:\n%q\nwant:\n%q", format, got, want)
		}
		for _, info := range []string{"", "100644 " + id, "100644 " + id + " 1", "10064x " + id + " 0", "100644 " + id[2:] + " 0"} {
			if err := ix.Add(info, "name"); err == nil {
				t.Errorf("%q: no error", info)
			}
		}
	}
}
