package quarantine

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

const ident = "A U Thor <author@example.com> 1700000000 +0000"

// oddCommit writes a commit on the base with any lines for its author and its committer, and any message, and returns its ID.
func (s *scene) oddCommit(tree, author, committer, message string) string {
	s.t.Helper()
	content := fmt.Sprintf("tree %s\nparent %s\n%s%s\n%s", tree, s.base, author, committer, message)
	return s.looseObject("", fmt.Sprintf("commit %d", len(content)), []byte(content))
}

// of writes a commit whose author has this line.
func (s *scene) of(author string) string {
	s.t.Helper()
	return s.oddCommit(s.git("rev-parse", "HEAD^{tree}"), "author "+author+"\n", "committer "+ident+"\n", "m\n")
}

// with writes a commit of a tree that has entries. Each has a mode, a name, and what it is at: an ID, or the content of a file.
func (s *scene) with(entries ...[3]string) string {
	s.t.Helper()
	trees := testgit.Trees{T: s.t, Store: s.dotGit("")}
	var list []string
	for _, e := range entries {
		if !gitref.IsObjectID(e[2]) {
			e[2] = trees.Blob(e[2])
		}
		list = append(list, trees.Entry(e[0], e[1], e[2]))
	}
	return s.oddCommit(trees.Tree(list...), "author "+ident+"\n", "committer "+ident+"\n", "m\n")
}

// tree returns the ID of the tree that the workspace began with.
func (s *scene) tree() string { return s.git("rev-parse", s.base+"^{tree}") }

// odd has commits whose objects have one finding each that is no refusal.
var odd = map[string]func(s *scene) string{
	"zeroPaddedFilemode": func(s *scene) string { return s.with([3]string{"040000", "d", s.tree()}) },
	"nullSha1":           func(s *scene) string { return s.with([3]string{"160000", "sub", strings.Repeat("0", 40)}) },
	"nulInCommit": func(s *scene) string {
		return s.oddCommit(s.tree(), "author "+ident+"\n", "committer "+ident+"\n", "m\x00\x1b[31m\n")
	},
	"multipleAuthors": func(s *scene) string {
		return s.oddCommit(s.tree(), "author "+ident+"\nauthor "+ident+"\n", "committer "+ident+"\n", "m\n")
	},
	"badTimezone":             func(s *scene) string { return s.of("A <a@b> 1312735823 +051800") },
	"badDate":                 func(s *scene) string { return s.of("A <a@b> <a@b> 1305038239 -0700") },
	"zeroPaddedDate":          func(s *scene) string { return s.of("A <a@b> 01305038239 -0700") },
	"missingSpaceBeforeDate":  func(s *scene) string { return s.of("A <a@b>") },
	"missingSpaceBeforeEmail": func(s *scene) string { return s.of("A<a@b> 1305038239 -0700") },
	"missingEmail":            func(s *scene) string { return s.of("A") },
	"missingNameBeforeEmail":  func(s *scene) string { return s.of("<a@b> 1305038239 -0700") },
	"badEmail":                func(s *scene) string { return s.of("A <a <a@b>> 1305038239 -0700") },
	"badName":                 func(s *scene) string { return s.of("A> <a@b> 1305038239 -0700") },
	// These are infos.
	"badFilemode":          func(s *scene) string { return s.with([3]string{"100664", "f", "x"}) },
	"gitmodulesParse":      func(s *scene) string { return s.with([3]string{"100644", ".gitmodules", "[submodule \"x\"\nbad"}) },
	"gitattributesSymlink": func(s *scene) string { return s.with([3]string{"120000", ".gitattributes", "x"}) },
	"gitignoreSymlink":     func(s *scene) string { return s.with([3]string{"120000", ".gitignore", "x"}) },
	"mailmapSymlink":       func(s *scene) string { return s.with([3]string{"120000", ".mailmap", "x"}) },
}

// reported matches a line of git fsck: what it says after the type of the object, and the name of the finding.
var reported = regexp.MustCompile(`(?m)^(?:error|warning) in \w+ ([0-9a-f]+: (\w+): .*)$`)

// TestOldHistory pushes objects with each finding of git fsck that is tolerated, and compares the warnings with what git fsck
// itself says in the workspace.
func TestOldHistory(t *testing.T) {
	t.Parallel()
	for _, name := range strings.Split(tolerated, ",") {
		if name, ok := strings.CutSuffix(name, "=warn"); !ok || odd[name] == nil {
			t.Errorf("%q is not tested", name)
		}
	}
	s := newScene(t)
	merge := []string{"commit-tree", "-m", "m", s.tree()}
	for _, write := range odd {
		merge = append(merge, "-p", write(s))
	}
	work := s.git(merge...)
	s.git("update-ref", "refs/heads/work", work)
	taken, b := s.mustTake("work")
	var want []string
	for name, text := range s.fsck() {
		if want = append(want, text); odd[name] == nil {
			t.Errorf("git fsck says %q", text)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(taken.Warnings)); len(want) != len(odd) || !slices.Equal(got, want) {
		t.Errorf("warnings\n%s\ngit fsck says\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, err := taken.Raw(t.Context()); err != nil {
		t.Error(err)
	}
	s.must(taken.Push(t.Context(), s.target("old", ""), b, silent))
	if got := s.at("old"); got != work {
		t.Errorf("the remote is at %q, want %q", got, work)
	}
	testgit.Git(t, t.TempDir(), "clone", "-q", "-b", "old", s.server.URL("r"), ".")
}

// fsck returns what git fsck says of objects in the workspace, by the name of the finding.
func (s *scene) fsck() map[string]string {
	s.t.Helper()
	out, _ := testgit.Command(s.root, "fsck", "--strict", "--no-dangling", "--no-progress").CombinedOutput()
	said := make(map[string]string)
	for _, m := range reported.FindAllStringSubmatch(string(out), -1) {
		said[m[2]] = "object " + m[1]
	}
	return said
}

// TestWhatHarmsIsRefused: objects that attack who fetches them, or that programs read differently, are refused, also after
// others that are tolerated.
func TestWhatHarmsIsRefused(t *testing.T) {
	t.Parallel()
	modules := func(line string) func(s *scene) string {
		return func(s *scene) string {
			return s.with([3]string{"100644", ".gitmodules", "[submodule \"x\"]\n\tpath = x\n\t" + line + "\n"})
		}
	}
	file := func(entries ...[3]string) func(s *scene) string {
		return func(s *scene) string { return s.with(entries...) }
	}
	lines := func(author, committer string) func(s *scene) string {
		return func(s *scene) string { return s.oddCommit(s.tree(), author, committer, "m\n") }
	}
	attacks := map[string]func(s *scene) string{
		"hasDot":                  file([3]string{"100644", ".", "x"}),
		"hasDotdot":               func(s *scene) string { return s.with([3]string{"40000", "..", s.tree()}) },
		"hasDotgit":               func(s *scene) string { return s.with([3]string{"40000", ".GiT", s.tree()}) },
		"fullPathname":            file([3]string{"100644", "a/b", "x"}),
		"duplicateEntries":        file([3]string{"100644", "a", "x"}, [3]string{"100644", "a", "y"}),
		"treeNotSorted":           file([3]string{"100644", "b", "x"}, [3]string{"100644", "a", "y"}),
		"gitmodulesSymlink":       file([3]string{"120000", ".gitmodules", "x"}),
		"gitmodulesUrl":           modules("url = --upload-pack=x"),
		"gitmodulesPath":          modules("path = -x"),
		"gitmodulesUpdate":        modules("update = !x"),
		"gitmodulesName":          file([3]string{"100644", ".gitmodules", "[submodule \"../x\"]\n\tpath = x\n"}),
		"gitmodulesBlob":          func(s *scene) string { return s.with([3]string{"40000", ".gitmodules", s.tree()}) },
		"gitattributesBlob":       func(s *scene) string { return s.with([3]string{"40000", ".gitattributes", s.tree()}) },
		"gitattributesLineLength": file([3]string{"100644", ".gitattributes", strings.Repeat("a", 3000)}),
		"nulInHeader":             lines("author A\x00 <a@b> 1 +0000\n", "committer "+ident+"\n"),
		"missingAuthor":           lines("", "committer "+ident+"\n"),
		"missingCommitter":        lines("author "+ident+"\n", ""),
		"badDateOverflow":         lines("author A <a@b> 18446744073709551615 +0000\n", "committer "+ident+"\n"),
		"is not complete: empty filename": func(s *scene) string { // git can't walk it
			return s.with([3]string{"100644", "", "x"})
		},
		"is not complete: unable to read 000000": func(s *scene) string { return s.with([3]string{"100644", "f", strings.Repeat("0", 40)}) },
	}
	for layer, cloning := range map[string][]string{"full": nil, "no-blobs": {"--filter=blob:none"}} {
		t.Run(layer, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, cloning...)
			for finding, write := range attacks {
				id := write(s)
				if cloning == nil {
					id = s.git("commit-tree", "-m", "m", "-p", s.of("A"), "-p", id, s.tree())
				}
				s.git("update-ref", "refs/heads/work", id)
				_, _, err := s.take("work")
				s.wantRefusal(err, Unusable, finding)
			}
			said := s.fsck()
			for finding := range attacks {
				if said[finding] == "" && !strings.Contains(finding, " ") {
					t.Errorf("control: git fsck does not say %s", finding)
				}
			}
		})
	}
}

// TestOldHistoryWithoutBlobs: with a git layer that may lack contents of files, the findings are tolerated if all is there
// that the new objects refer to. If it is not, what git calls an error is refused, as --fsck-objects does.
func TestOldHistoryWithoutBlobs(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--filter=blob:none")
	s.git("update-ref", "refs/heads/here", s.with([3]string{"040000", "d", s.git("mktree", "--missing")}))
	taken, _ := s.mustTake("here")
	if len(taken.Warnings) != 1 || !strings.Contains(taken.Warnings[0], "zeroPaddedFilemode") {
		t.Errorf("warnings %q", taken.Warnings)
	}
	s.must(taken.Close())
	missing, _, _ := strings.Cut(s.git("ls-tree", "-r", "--format=%(objectname)", s.base), "\n")
	s.git("update-ref", "refs/heads/info", s.with([3]string{"100644", "f", missing}, [3]string{"100664", "g", "x"}))
	if taken, _ = s.mustTake("info"); len(taken.Warnings) != 1 || !strings.Contains(taken.Warnings[0], "badFilemode") {
		t.Errorf("warnings %q", taken.Warnings)
	}
	s.must(taken.Close())
	s.git("update-ref", "refs/heads/missing", s.with([3]string{"100644", "f", missing}, [3]string{"0100644", "g", "x"}))
	_, _, err := s.take("missing")
	s.wantRefusal(err, Unusable, "zeroPaddedFilemode")
}

// TestServerRefusesOldHistory: a server that checks what it gets says why it refuses.
func TestServerRefusesOldHistory(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.must(s.server.Configure("r", "receive.fsckObjects", "true"))
	id := s.of("A <a@b> 1312735823 +051800")
	s.git("update-ref", "refs/heads/work", id)
	s.wantLater(s.push("work", "work", ""), Denied, `refuses branch "work": unpacker error: it says: "error: object `+id+": badTimezone: ")
	s.must(s.server.Configure("r", "receive.fsck.badTimezone", "warn"))
	s.must(s.push("work", "work", ""))
}

// TestOldHistoryInBundle: a bundle has what a push has, in both formats of objects.
func TestOldHistoryInBundle(t *testing.T) {
	t.Parallel()
	for _, format := range []string{gitref.SHA1, gitref.SHA256} {
		server := testgit.Serve(t)
		testgit.Git(t, "", "init", "-q", "--bare", "-b", "main", "--object-format="+format, server.Path("r"))
		if _, err := gitserver.Commit(server.Path("r"), "main", gitserver.Change{Path: "f", Content: "zero"}); err != nil {
			t.Fatal(err)
		}
		s := sceneOf(t, server, "r")
		trees := testgit.Trees{T: t, Store: s.dotGit("")}
		id := trees.Tree(trees.Entry("0100644", "f", trees.Blob("x")))
		s.git("update-ref", "refs/heads/work", s.git("commit-tree", "-m", "m", "-p", s.base, id))
		taken, _ := s.mustTake("work")
		if want := []string{"object " + id + ": zeroPaddedFilemode: contains zero-padded file modes"}; !slices.Equal(taken.Warnings, want) {
			t.Errorf("%s: warnings %q, want %q", format, taken.Warnings, want)
		}
		content, _, err := taken.Bundle()
		s.must(err)
		body, err := io.ReadAll(content)
		s.must(err)
		s.must(content.Close())
		file := filepath.Join(t.TempDir(), "b")
		s.must(os.WriteFile(file, body, 0o600))
		testgit.Git(t, server.Path("r"), "fetch", "-q", file, "work:work")
	}
}

// TestWarningsAreBounded: a history of any number of odd commits has few warnings.
func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	parents := make(map[string]bool)
	for n := range maxWarnings + 30 {
		author := fmt.Sprintf("author A%d <%s", n, strings.Repeat("\x1b[31m<é", 1000))
		parents[s.oddCommit(s.tree(), author+"\n", "committer "+ident+"\n", "m\n")] = true
	}
	args := []string{"commit-tree", "-m", "m", s.tree()}
	for id := range parents {
		args = append(args, "-p", id)
	}
	s.git("update-ref", "refs/heads/work", s.git(args...))
	taken, _ := s.mustTake("work")
	if n := len(taken.Warnings); n != maxWarnings+1 || taken.Warnings[n-1] != "and 30 more findings" {
		t.Fatalf("%d warnings: %q", n, taken.Warnings)
	}
	for _, text := range taken.Warnings[:maxWarnings] {
		id, found := strings.CutPrefix(text, "object ")
		if id, rest, _ := strings.Cut(id, ": "); !found || !parents[id] || rest != "badEmail: invalid author/committer line - bad email" {
			t.Errorf("warning %q", text)
		}
	}
}

// TestWarningsArePrintable: lines that git does not print of an object are no warnings, whatever they have.
func TestWarningsArePrintable(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("a", 40)
	var w warnings
	for _, line := range []string{
		"", "warning: unable to access '/x'", "error: object " + id + ": badDate: x", "warning: object x: badDate: x",
		"warning: object " + id + ": badTagName: invalid 'tag' name: \x1b[31m", "warning: object " + id + ": badTagName: \xff", "warning: object " + id + " (é): badDate: x",
	} {
		if w.note(line); len(w.list()) > 0 {
			t.Errorf("%q is a warning: %q", line, w.list())
		}
	}
	for range 2 { // of the author and of the committer
		w.note("warning: object " + id + ": badDate: " + strings.Repeat("x", 10_000))
	}
	if got := w.list(); len(got) != 1 || len(got[0]) != maxWarning {
		t.Errorf("warnings %q", got)
	}
}
