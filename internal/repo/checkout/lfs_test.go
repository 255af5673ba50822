package checkout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestLFSMatchesGitLFS checks that a file gets the same content as from git with git-lfs as
// its filter, for random attributes and spellings of its pointer.
func TestLFSMatchesGitLFS(t *testing.T) {
	t.Parallel()
	withBothGits(t, func(t *testing.T, g tester) {
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		w := newTrees(t, g)
		root := testgit.Scratch(t, g.root)
		storage, theirs := filepath.Join(root, "ours"), filepath.Join(root, "git-lfs")
		files, attributes := make(map[string]string), ""
		var names, how []string
		for i := range 400 {
			name := fmt.Sprintf("d%d/f%d", i%7, i)
			p, content := newPointer(r, i)
			if p.Size > 0 {
				putFile(t, lfs.Object(storage, p.OID), content)
				putFile(t, filepath.Join(theirs, "objects", p.OID[:2], p.OID[2:4], p.OID), content)
			}
			text, attribute := spell(r, p), drawAttributes(r)
			files[name] = "100644 " + w.Blob(text)
			attributes += name + " " + attribute + "\n"
			names, how = append(names, name), append(how, fmt.Sprintf("%s: %.300q of %d bytes", attribute, text, len(text)))
		}
		files[gitindex.Attributes] = "100644 " + w.Blob(attributes)
		commit := w.Commit(files)

		plain := checkoutDir(t, root, "plain")
		plainCheckout(t, w, plain, commit, nil, "filter.lfs.process=git-lfs filter-process", "filter.lfs.required=true", "lfs.storage="+theirs)

		co := Spec{Store: w.Store, Commit: commit, Dir: checkoutDir(t, root, "checkout")}
		found, err := g.make(t.Context(), co)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found.Pointers {
			if ok, err := lfs.Has(storage, p); !ok || err != nil {
				t.Fatalf("%+v is not in the storage: %v", p, err)
			}
		}
		if err := g.fill(t.Context(), co, storage, found.Pointers); err != nil {
			t.Fatal(err)
		}
		filled := 0
		for i, name := range names {
			want, err := os.ReadFile(filepath.Join(plain, name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(co.Dir, name))
			if err != nil || string(got) != string(want) {
				t.Errorf("%s\n is   %.300q, %v\n want %.300q", how[i], got, err, want)
			}
			if strings.HasPrefix(string(want), "content ") || len(want) == 0 {
				filled++
			}
		}
		if filled < len(names)/5 || filled > len(names)*4/5 {
			t.Errorf("git-lfs filled %d of %d files: the test draws too few of one kind", filled, len(names))
		}
	})
}

// newPointer returns a pointer and its content, which differs for each i.
func newPointer(r *rand.Rand, i int) (lfs.Pointer, string) {
	content := fmt.Sprintf("content %d\n", i)
	sum := sha256.Sum256([]byte(content))
	p := lfs.Pointer{OID: hex.EncodeToString(sum[:]), Size: int64(len(content))}
	if r.IntN(15) == 0 {
		p.Size = 0 // which needs no object
	}
	return p, content
}

func putFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pick returns the first of the texts most of the time.
func pick(r *rand.Rand, usual string, others ...string) string {
	if r.IntN(8) > 0 {
		return usual
	}
	return others[r.IntN(len(others))]
}

// drawAttributes returns the attributes of a file.
func drawAttributes(r *rand.Rand) string {
	list := []string{pick(r, "filter=lfs", "-filter", "filter", "filter=other", "!filter", "filter=lfs -filter", "-filter filter=lfs")}
	for _, choice := range [][]string{
		{"", "", "text", "-text", "text=auto", "!text", "text=input", "binary", "crlf", "-crlf"},
		{"", "", "eol=crlf", "eol=lf", "-eol"},
		{"", "", "", "", "ident", "working-tree-encoding=UTF-8", "working-tree-encoding=UTF-16", "diff=lfs merge=lfs", "whitespace=cr-at-eol"},
	} {
		list = append(list, choice[r.IntN(len(choice))])
	}
	return strings.Join(list, " ")
}

// spell returns the text of a pointer in one of many spellings, valid and invalid.
func spell(r *rand.Rand, p lfs.Pointer) string {
	end := pick(r, "\n", "\r\n", "\r\r\n", "\r")
	if r.IntN(3) == 0 {
		end = "\r\n"
	}
	blank := func() string { // between lines
		return pick(r, "", end, "\n", "\r\n", end+end, " "+end, "\t\n")
	}
	oid, size := p.OID, fmt.Sprint(p.Size)
	lines := []string{
		"version " + pick(r, "https://git-lfs.github.com/spec/v1", "http://git-media.io/v/2", "https://hawser.github.com/spec/v1",
			"https://git-lfs.github.com/spec/v2", "https://git-lfs.github.com/spec/v1 ", "\thttps://git-lfs.github.com/spec/v1", ""),
		"oid " + pick(r, "sha256:"+oid, "sha256:"+strings.ToUpper(oid), "sha512:"+oid, oid, "sha256: "+oid, "sha256:"+oid+" ", "sha256:"+oid[1:]),
		"size " + pick(r, size, "+"+size, "000"+size, " "+size, "-1", size+" x", "0x10", "1_0", ""),
	}
	switch r.IntN(30) {
	case 0:
		lines[0], lines[1] = lines[1], lines[0]
	case 1:
		lines[1], lines[2] = lines[2], lines[1]
	case 2:
		lines = append(lines, "more "+oid)
	case 3:
		lines = append(lines, lines[2])
	case 4:
		lines = lines[:2]
	case 5:
		lines[r.IntN(3)] += pick(r, " ", "\t", "\x00", "\u00a0")
	case 6:
		lines[r.IntN(3)] = "x"
	}
	text := pick(r, "", " ", "\n", "\r\n\r\n", "\ufeff", "\u00a0", "\u2028\v")
	for _, line := range lines {
		text += line + end + blank()
	}
	switch r.IntN(6) {
	case 0:
		text = strings.TrimRight(text, "\r\n\t ")
	case 1:
		text += pick(r, "   ", "\t\n", "\u0085", "\u3000\n", "\x00", "$Id$")
	case 2: // up to the largest
		fill := pick(r, "\n", "\r\n", " ", "x")
		text += strings.Repeat(fill, max(0, r.IntN(lfs.MaxPointer)-len(text))/len(fill))
	case 3: // git-lfs fails for a larger one that begins with a pointer
		text = "x" + text + strings.Repeat("\n", r.IntN(5000))
	}
	if len(text)+strings.Count(text, "\n") >= lfs.MaxPointer && text[0] != 'x' {
		return text[:lfs.MaxPointer/2] // conversions could make it too large
	}
	return text
}
