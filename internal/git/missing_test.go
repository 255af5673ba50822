package git

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/tests/testgit"
)

// missingNames are names of files and directories. Git quotes some of them, some have a
// meaning in a pathspec, and some are a prefix of another.
var missingNames = []string{"a", "a-b", "a b", `q"q`, "n\nl", "\xff\xfe", ":(top)d", ":x", "ä", "z"}

// TestMissingBlobsAreThoseOfLsTree compares MissingBlobs with ls-tree, for random repositories
// whose trees share parts, and random cones. A cone names directories, files, links and
// submodules, of which some do not exist.
func TestMissingBlobsAreThoseOfLsTree(t *testing.T) {
	withBothGits(t, func(t *testing.T, g *Git) {
		seeds := uint64(12)
		if testing.Short() {
			seeds = 3
		}
		for seed := range seeds {
			for _, format := range []string{gitref.SHA1, gitref.SHA256} {
				testMissingBlobs(t, g, format, rand.New(rand.NewPCG(seed, 0)))
			}
		}
	})
}

func testMissingBlobs(t *testing.T, g *Git, format string, random *rand.Rand) {
	t.Helper()
	dir := testgit.Store(t, g.config.Root, fetcher, format)
	w := testgit.Trees{T: t, Store: dir}
	missing := make(map[string]bool)
	var blobs []string
	for i := range 12 {
		id := w.Blob(fmt.Sprint("content ", i))
		blobs = append(blobs, id)
		if i%2 == 0 {
			missing[id] = true
		}
	}
	ids := map[string][]string{"100644": blobs, "100755": blobs, "120000": blobs, "160000": {strings.Repeat("12", len(blobs[0])/2)}}
	for range 10 { // each tree has entries made before
		var entries []string
		for _, name := range missingNames {
			mode := []string{"40000", "40000", "40000", "100644", "100644", "100755", "120000", "160000", ""}[random.IntN(9)]
			if len(ids[mode]) == 0 {
				continue
			}
			id, err := hex.DecodeString(ids[mode][random.IntN(len(ids[mode]))])
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, mode+" "+name+"\x00"+string(id))
		}
		slices.SortFunc(entries, func(a, b string) int { return strings.Compare(sortName(a), sortName(b)) })
		ids["40000"] = append(ids["40000"], w.Git(strings.Join(entries, ""), nil, "hash-object", "-w", "-t", "tree", "--stdin"))
	}
	commit := w.Git("", nil, "commit-tree", "-m", "m", ids["40000"][len(ids["40000"])-1])
	for id := range missing {
		if err := os.Remove(filepath.Join(dir, "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
	}
	listed := w.Git("", nil, "ls-tree", "-r", "-z", "--full-tree", commit)
	for i := range 8 {
		var cone gitindex.Cone // the first is empty and selects everything
		for range min(i, 3) {
			var parts []string
			for range 1 + random.IntN(3) {
				parts = append(parts, missingNames[random.IntN(len(missingNames))])
			}
			cone = append(cone, strings.Join(parts, "/"))
		}
		selected := cone.Selector()
		want := []string{}
		for entry := range strings.SplitSeq(strings.Trim(listed, "\x00"), "\x00") {
			info, name, _ := strings.Cut(entry, "\t")
			if id := info[strings.LastIndex(info, " ")+1:]; missing[id] && selected(name) {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		want = slices.Compact(want)
		got, err := g.MissingBlobs(t.Context(), dir, commit, cone)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s, cone %q: missing %q, %v, want %q", format, cone, got, err, want)
		}
	}
}

// sortName returns the name by which git sorts a raw entry. A directory's ends with a slash.
func sortName(entry string) string {
	mode, rest, _ := strings.Cut(entry, " ")
	name, _, _ := strings.Cut(rest, "\x00")
	if mode == "40000" {
		name += "/"
	}
	return name
}
