package quarantine

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// must ends a test with an error.
func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// dotGit returns a path in .git of the work tree.
func (s *scene) dotGit(name string) string { return filepath.Join(s.root, ".git", name) }

// replace removes a path in .git, and calls f to put something else there.
func (s *scene) replace(name string, f func(path string) error) {
	s.t.Helper()
	s.must(errors.Join(os.RemoveAll(s.dotGit(name)), f(s.dotGit(name))))
}

func fifo(path string) error { return unix.Mkfifo(path, 0o666) }

// zero makes the device of /dev/zero, which has no end.
func zero(path string) error { return unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))) }

// looseObject writes a loose object with any header and content, under the name id or, if that is
// empty, under its hash, and returns the name.
func (s *scene) looseObject(id, header string, content []byte) string {
	s.t.Helper()
	data := append([]byte(header+"\x00"), content...)
	if id == "" {
		sum := sha1.Sum(data)
		id = hex.EncodeToString(sum[:])
	}
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write(data)
	z.Close()
	s.write(".git/objects/"+id[:2]+"/"+id[2:], b.String())
	return id
}

// TestHostileRepositories pushes from repositories that a container made for the purpose. None is
// accepted, each error says what is wrong, and nothing is left.
func TestHostileRepositories(t *testing.T) {
	t.Parallel()
	template := newScene(t)
	template.git("switch", "-q", "-c", "work")
	template.commit("f", "content")
	packed, err := os.Stat(filepath.Join(template.layer, "packed-refs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		attack func(s *scene)
		branch string // empty: work
		why    Why
		text   string
	}{
		{"git-file", func(s *scene) {
			s.must(os.Rename(s.dotGit(""), s.root+"/other"))
			s.write(".git", "gitdir: other\n")
		}, "", Unusable, "is not a directory"},
		{"git-link", func(s *scene) {
			s.must(os.Rename(s.dotGit(""), s.root+"/other"))
			s.must(os.Symlink("other", s.root+"/.git"))
		}, "", Unusable, "is not a directory"},
		{"no-git", func(s *scene) { s.must(os.RemoveAll(s.root + "/.git")) }, "", Unusable, "is not a directory"},
		{"reftable", func(s *scene) { s.must(os.Mkdir(s.dotGit("reftable"), 0o755)) }, "", Unusable, "git refs migrate"},
		{"objects-link", func(s *scene) {
			s.must(os.Rename(s.dotGit("objects"), s.root+"/objects"))
			s.must(os.Symlink("../objects", s.dotGit("objects")))
		}, "", Unusable, "links, mounts"},
		{"refs-link", func(s *scene) {
			s.must(os.Rename(s.dotGit("refs"), s.root+"/refs"))
			s.must(os.Symlink("../refs", s.dotGit("refs")))
		}, "", Unusable, "links, mounts"},
		{"pack-link", func(s *scene) {
			s.git("repack", "-qad")
			packs, _ := filepath.Glob(s.dotGit("objects/pack/*.pack"))
			s.must(os.Rename(packs[0], s.root+"/p"))
			s.must(os.Symlink("../../../p", packs[0]))
		}, "", Unusable, "links, mounts"},
		{"ref-link", func(s *scene) {
			s.replace("refs/heads/work", func(p string) error { return os.Symlink("/etc/passwd", p) })
		}, "", Unusable, "links, mounts"},
		{"ref-fifo", func(s *scene) { s.replace("refs/heads/work", fifo) }, "", Unusable, "FIFOs"},
		{"ref-device", func(s *scene) { s.replace("refs/heads/work", zero) }, "", Unusable, "devices"},
		{"ref-huge", func(s *scene) { s.write(".git/refs/heads/work", strings.Repeat("a", 1<<20)) }, "", TooLarge, "more than 4096 bytes"},
		{"head-fifo", func(s *scene) { s.replace("HEAD", fifo) }, "HEAD", Unusable, "FIFOs"},
		{"head-directory", func(s *scene) { s.replace("HEAD", func(p string) error { return os.Mkdir(p, 0o755) }) }, "HEAD", Unusable, "no file"},
		{"head-outside", func(s *scene) { s.write(".git/HEAD", "ref: ../../../etc/passwd\n") }, "HEAD", Unusable, "within refs/"},
		{"packed-refs-fifo", func(s *scene) { s.replace("packed-refs", fifo) }, "", Unusable, "FIFOs"},
		{"packed-refs-huge", func(s *scene) {
			s.replace("packed-refs", func(p string) error { return errors.Join(os.WriteFile(p, nil, 0o644), os.Truncate(p, 1<<40)) })
		}, "", TooLarge, fmt.Sprintf("more than %d bytes", maxPacked+2*packed.Size())},
		{"packed-refs-many", func(s *scene) {
			var b strings.Builder
			for i := range maxBranches + 1 {
				fmt.Fprintf(&b, "%s refs/heads/b%d\n", s.base, i)
			}
			s.write(".git/packed-refs", b.String())
		}, "", TooLarge, "more than 20000 branches"},
		{"symbolic-cycle", func(s *scene) {
			s.write(".git/refs/heads/work", "ref: refs/heads/a\n")
			s.write(".git/refs/heads/a", "ref: refs/heads/work\n")
		}, "", Unusable, "more than 5 symbolic refs"},
		{"symbolic-outside", func(s *scene) { s.write(".git/refs/heads/work", "ref: config\n") }, "", Unusable, "within refs/"},
		{"symbolic-up", func(s *scene) { s.write(".git/refs/heads/work", "ref: refs/../../../outside\n") }, "", Unusable, "within refs/"},
		{"ref-garbage", func(s *scene) { s.write(".git/refs/heads/work", "\x1b[31mfoo") }, "", Unusable, `\x1b[31mfoo`},
		{"ref-format", func(s *scene) { s.write(".git/refs/heads/work", strings.Repeat("a", 64)) }, "", Unusable, "of the format sha1"},
		{"ref-option", func(s *scene) { s.write(".git/refs/heads/--upload-pack=x", s.base) }, "--upload-pack=x", Invalid, "leading dash"},
		{"ref-name", func(s *scene) { s.write(".git/refs/heads/a..b", s.base) }, "a..b", Invalid, "is not the name"},
		{"ref-to-blob", func(s *scene) { s.write(".git/refs/heads/work", s.git("rev-parse", "HEAD:f")) }, "", Unusable, "is at a blob"},
		{"ref-to-nothing", func(s *scene) { s.write(".git/refs/heads/work", strings.Repeat("12", 20)) }, "", Unusable, "is not complete"},
		{"missing-blob", func(s *scene) {
			id := s.git("rev-parse", "HEAD:f")
			s.must(os.Remove(s.dotGit("objects/" + id[:2] + "/" + id[2:])))
		}, "", Unusable, "is not complete"},
		{"missing-tree", func(s *scene) {
			id := s.git("rev-parse", "HEAD^{tree}")
			s.must(os.Remove(s.dotGit("objects/" + id[:2] + "/" + id[2:])))
		}, "", Unusable, "is not complete"},
		{"alternates", func(s *scene) { // to objects that the fetching uid may read
			s.copy(s.dotGit("objects"), s.root+"/elsewhere")
			s.must(os.RemoveAll(s.dotGit("objects")))
			s.must(os.MkdirAll(s.dotGit("objects/info"), 0o755))
			s.write(".git/objects/info/alternates", s.root+"/elsewhere\n")
			s.git("cat-file", "-e", "HEAD")
		}, "", Unusable, "is not complete"},
		{"shallow-and-graft", func(s *scene) { // hide that the parent is missing
			missing := s.git("commit-tree", "-m", "m", s.git("rev-parse", "HEAD^{tree}"))
			s.git("update-ref", "refs/heads/work", s.git("commit-tree", "-m", "m", "-p", missing, s.git("rev-parse", "HEAD^{tree}")))
			s.must(os.Remove(s.dotGit("objects/" + missing[:2] + "/" + missing[2:])))
			s.write(".git/shallow", s.git("rev-parse", "refs/heads/work")+"\n")
			s.write(".git/info/grafts", s.git("rev-parse", "refs/heads/work")+"\n")
		}, "", Unusable, "is not complete"},
		{"loose-torn", func(s *scene) { s.looseObject(s.git("rev-parse", "HEAD:f"), "blob 3", []byte("new")) }, "", Changed, "does not have this hash"},
		{"loose-longer", func(s *scene) { s.looseObject("", "blob 3", []byte("longer")) }, "", Changed, "longer than it says"},
		{"loose-shorter", func(s *scene) { s.looseObject("", "blob 30", []byte("short")) }, "", Changed, "want 30"},
		{"loose-header", func(s *scene) { s.looseObject("", "blob 003", []byte("foo")) }, "", Changed, "header"},
		{"loose-no-zlib", func(s *scene) { s.write(".git/objects/aa/"+strings.Repeat("a", 38), "foo") }, "", Changed, "damaged"},
		{"loose-fifo", func(s *scene) {
			s.must(os.MkdirAll(s.dotGit("objects/aa"), 0o755))
			s.must(fifo(s.dotGit("objects/aa/" + strings.Repeat("a", 38))))
		}, "", Unusable, "FIFOs"},
		{"loose-link", func(s *scene) {
			s.must(os.MkdirAll(s.dotGit("objects/aa"), 0o755))
			s.must(os.Symlink("/etc/passwd", s.dotGit("objects/aa/"+strings.Repeat("a", 38))))
		}, "", Unusable, "links"},
		{"loose-bomb", func(s *scene) { // a thousand times its size
			n := int(s.q.MaxSize) + 1
			s.looseObject("", fmt.Sprintf("blob %d", n), make([]byte, n))
		}, "", TooLarge, "PUSH_MAX_SIZE"},
		{"loose-empty-blocks", func(s *scene) {
			// It inflates to nothing, so its cost is its length alone.
			s.write(".git/objects/"+s.base[:2]+"/"+strings.Repeat("0", 38), "\x78\x01"+strings.Repeat("\x00\x00\x00\xff\xff", 1<<20))
		}, "", Changed, "twice as long as its content"},
		{"loose-names", func(s *scene) { // links of one file in each of 256 directories, none of which is an object
			s.must(os.MkdirAll(s.dotGit("objects/00"), 0o755))
			for i := range maxLoose / 200 {
				s.must(os.WriteFile(s.dotGit(fmt.Sprintf("objects/00/junk%d", i)), nil, 0o644))
			}
			for i := 1; i < 256; i++ {
				s.must(os.RemoveAll(s.dotGit(fmt.Sprintf("objects/%02x", i))))
				if out, err := exec.Command("cp", "-al", s.dotGit("objects/00"), s.dotGit(fmt.Sprintf("objects/%02x", i))).CombinedOutput(); err != nil {
					s.t.Fatalf("%v: %s", err, out)
				}
			}
		}, "", TooLarge, "more than 250000 loose objects"},
		{"packed-refs-line", func(s *scene) { s.write(".git/packed-refs", strings.Repeat("a", 1<<20)) }, "", TooLarge, "a line of more than"},
		{"packed-refs-names", func(s *scene) {
			var b strings.Builder
			for i := range 3000 {
				fmt.Fprintf(&b, "%s refs/heads/b%d%s\n", s.base, i, strings.Repeat("b", 1000))
			}
			s.write(".git/packed-refs", b.String())
		}, "", TooLarge, "bytes of their names"},
		{"loose-lies", func(s *scene) { s.looseObject("", "blob 9223372036854775807", []byte("x")) }, "", TooLarge, "PUSH_MAX_SIZE"},
		{"loose-sparse", func(s *scene) { // the holes follow an object that is fine
			id := s.looseObject("", "blob 1", []byte("x"))
			s.must(os.Truncate(s.dotGit("objects/"+id[:2]+"/"+id[2:]), 1<<43))
		}, "", TooLarge, "PUSH_MAX_SIZE"},
		{"pack-damaged", func(s *scene) {
			s.git("repack", "-qd")
			s.damagePack(func(data []byte) []byte { data[len(data)/2] ^= 0xff; return data })
		}, "", Unusable, "is damaged"},
		{"pack-short", func(s *scene) {
			s.git("repack", "-qd")
			s.damagePack(func(data []byte) []byte { return data[:len(data)-30] })
		}, "", Unusable, "is damaged"},
		{"pack-sparse", func(s *scene) {
			s.must(errors.Join(os.WriteFile(s.hostilePack(), nil, 0o644), os.Truncate(s.hostilePack(), 1<<42)))
		}, "", TooLarge, "PUSH_MAX_SIZE"},
		{"pack-counts", func(s *scene) {
			s.must(os.WriteFile(s.hostilePack(), packHeader(1<<31), 0o644))
		}, "", TooLarge, "more than 2000000 objects"},
		{"pack-no-pack", func(s *scene) { s.must(os.WriteFile(s.hostilePack(), []byte("not a pack at all"), 0o644)) }, "", Unusable, "not a pack"},
		{"pack-fifo", func(s *scene) { s.must(fifo(s.hostilePack())) }, "", Unusable, "FIFOs"},
		{"packs-many", func(s *scene) {
			for i := range maxPacks + 1 {
				s.must(os.WriteFile(s.dotGit(fmt.Sprintf("objects/pack/pack-%040x.pack", i)), nil, 0o644))
			}
		}, "", TooLarge, "more than 500 packs"},
		{"fsck-dotgit", func(s *scene) {
			trees := testgit.Trees{T: s.t, Store: s.dotGit("")}
			s.git("update-ref", "refs/heads/work", trees.CommitTree(trees.Entry("40000", ".GIT", trees.Tree(trees.Entry("100644", "config", trees.Blob("x"))))))
		}, "", Unusable, "hasDotgit"},
		{"fsck-modules", func(s *scene) {
			trees := testgit.Trees{T: s.t, Store: s.dotGit("")}
			modules := trees.Blob("[submodule \"x\"]\n\tpath = x\n\turl = -u./payload\n")
			s.git("update-ref", "refs/heads/work", trees.CommitTree(trees.Entry("100644", ".gitmodules", modules)))
		}, "", Unusable, "gitmodulesUrl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 3)
			t.Parallel()
			s := template.again(t)
			tt.attack(s)
			branch := tt.branch
			if branch == "" {
				branch = "work"
			}
			_, _, err := s.take(branch)
			s.wantRefusal(err, tt.why, tt.text)
		})
	}
}

// hostilePack returns a path for a pack.
func (s *scene) hostilePack() string {
	return s.dotGit("objects/pack/pack-" + strings.Repeat("a", 40) + ".pack")
}

// packHeader is that of a pack with n objects.
func packHeader(n uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32([]byte("PACK"), 2), n)
}

// damagePack changes the content of the pack that the layer does not have.
func (s *scene) damagePack(change func([]byte) []byte) {
	s.t.Helper()
	packs, err := filepath.Glob(s.dotGit("objects/pack/*.pack"))
	s.must(err)
	for _, p := range packs {
		if _, err := os.Stat(filepath.Join(s.layer, "objects/pack", filepath.Base(p))); err == nil {
			continue
		}
		data, err := os.ReadFile(p)
		s.must(errors.Join(err, os.Remove(p), os.WriteFile(p, change(data), 0o644)))
	}
}

// TestContainersGitIsNotUsed plants all that makes git run programs or read elsewhere, in a
// repository that is fine otherwise. The control shows that git in the repository falls for it.
func TestContainersGitIsNotUsed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.git("switch", "-q", "-c", "work")
	want := s.commit("f", "x")
	canary := filepath.Join(t.TempDir(), "canary")
	run := "touch " + canary + "; false"
	for _, hook := range []string{"pre-push", "reference-transaction", "post-index-change"} {
		s.write(".git/hooks/"+hook, "#!/bin/sh\n"+run+"\n")
		s.must(os.Chmod(s.dotGit("hooks/"+hook), 0o755))
	}
	for key, value := range map[string]string{
		"core.fsmonitor": run, "core.sshCommand": run, "core.gitProxy": run, "credential.helper": "!" + run, "core.alternateRefsCommand": run,
		"gpg.program": run, "push.gpgSign": "true", "uploadpack.packObjectsHook": run, "filter.x.clean": run, "diff.external": run,
		"core.hooksPath": s.dotGit("hooks"), "url." + s.server.URL("evil") + ".pushInsteadOf": s.server.URL("r"),
	} {
		s.git("config", key, value)
	}
	s.write(".git/info/attributes", "* filter=x diff=x\n")
	// A replace ref shows another commit in place of the one that is pushed.
	s.git("-c", "core.hooksPath=/dev/null", "update-ref", "refs/replace/"+want, s.base)
	if err := s.push("work", "work", ""); err != nil {
		t.Fatal(err)
	}
	if got := s.at("work"); got != want {
		t.Errorf("the remote is at %q, want %q", got, want)
	}
	if _, err := os.Lstat(canary); err == nil {
		t.Error("a program of the container ran")
	}
	if got := testgit.Git(t, s.server.Path("r"), "show", "work:f"); got != "x" {
		t.Errorf("the file at the remote has %q", got)
	}
	testgit.Run(testgit.Command(s.root, "status")) // fails or not
	if _, err := os.Lstat(canary); err != nil {
		t.Errorf("control: no program of the container ran: %v", err)
	}
}

// TestIndexesAreNotRead: what a container's .idx says, or is, does not matter: git makes one of the pack.
func TestIndexesAreNotRead(t *testing.T) {
	t.Parallel()
	template := newScene(t)
	template.git("switch", "-q", "-c", "work")
	want := template.commit("f", "x")
	template.git("repack", "-q", "-d")
	for name, put := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, []byte("garbage"), 0o644) },
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"sparse":  func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 1<<42)) },
		"fifo":    fifo,
		"link":    func(path string) error { return os.Symlink("/dev/zero", path) },
		"beyond": func(path string) error { // one object, far behind the end of the pack
			var b bytes.Buffer
			b.WriteString("\xfftOc\x00\x00\x00\x02")
			for range 256 {
				b.Write([]byte{0, 0, 0, 1})
			}
			b.Write(make([]byte, 20+4))
			b.Write([]byte{0x7f, 0xff, 0xff, 0xff})
			b.Write(make([]byte, 40))
			return os.WriteFile(path, b.Bytes(), 0o644)
		},
	} {
		s := template.again(t)
		indexes, err := filepath.Glob(s.dotGit("objects/pack/*.idx"))
		s.must(err)
		for _, path := range indexes {
			s.must(errors.Join(os.Remove(path), put(path)))
		}
		if len(indexes) < 2 {
			t.Fatalf("there are the indexes %q", indexes)
		}
		taken, b := s.mustTake("work")
		if b.ID != want || taken.Commits != 1 || taken.Objects < 3 {
			t.Errorf("%s: took %+v with %d commits and %d objects", name, b, taken.Commits, taken.Objects)
		}
		s.must(taken.Close())
	}
}

// TestOtherBranchesDoNotMatter checks that a branch can be taken beside those that can not.
func TestOtherBranchesDoNotMatter(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.git("switch", "-q", "-c", "work")
	want := s.commit("f", "x")
	s.write(".git/refs/heads/bad", "garbage")
	s.must(fifo(s.dotGit("refs/heads/fifo")))
	s.write(".git/refs/heads/-x", s.base)
	s.write(".git/refs/heads/sym", "ref: refs/heads/work\n")
	s.write(".git/refs/heads/origin", "ref: refs/remotes/origin/main\n")
	for branch, commit := range map[string]string{"work": want, "sym": want, "origin": s.base, "main": s.base} {
		r, err := s.repo()
		s.must(err)
		b, err := r.Branch(branch)
		if err != nil || b.ID != commit {
			t.Errorf("%s: %+v, %v; want %s", branch, b, err, commit)
		}
	}
	_, _, err := s.take("none")
	s.wantRefusal(err, Missing, `has no branch "none"; it has "bad" "fifo" "main" "origin" "sym" "work"`)
	r, err := s.repo()
	s.must(err)
	_, err = r.Differing()
	s.wantRefusal(err, Unusable, "bad")
}

// TestLooseEndsWithContext: the loop over loose objects, which computes in this process, looks at its
// context within an object too, and an object that can't be compressed is no bomb.
func TestLooseEndsWithContext(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	content := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{}).Read(content)
	id, err := hex.DecodeString(s.looseObject("", fmt.Sprintf("blob %d", len(content)), content))
	s.must(err)
	r, err := s.repo()
	if err != nil {
		t.Fatal(err)
	}
	limits := func() *meter { return &meter{maxBytes: 1 << 30, maxObjects: 10} }
	ctx, hangUp := context.WithCancelCause(t.Context())
	if err := r.packLoose(ctx, io.Discard, bytes.NewReader(id), 1, limits()); err != nil {
		t.Errorf("random bytes: %v", err)
	}
	reason := errors.New("the client has hung up")
	written := 0
	err = r.packLoose(ctx, writerFunc(func(data []byte) (int, error) {
		if written += len(data); written > 1<<20 {
			hangUp(reason)
		}
		return len(data), nil
	}), bytes.NewReader(id), 1, limits())
	if !errors.Is(err, reason) || written > 2<<20 {
		t.Errorf("got %v after %d bytes, want %v", err, written, reason)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }
