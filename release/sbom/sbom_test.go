package sbom_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/helmdeck/repos/release/image"
	"github.com/helmdeck/repos/release/sbom"
)

var about = sbom.About{Name: "plugin-amd64", Version: "1.2.3", Comment: "built from a test", Time: time.Unix(1e9, 0)}

// content returns the files of an image, whose program is that of the test, and their list.
func content(t *testing.T) (files []image.File, list string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	files = []image.File{
		{Path: "etc/passwd", Data: []byte("root\n")}, {Path: "usr/bin/git", Data: []byte("git")}, {Path: "usr/bin/sh", Link: "dash"},
		{Path: image.Program, Data: program},
	}
	list = fmt.Sprintf("/etc/passwd\t-\t-\t-\t%x\n/usr/bin/git\tgit\t1:2.47.3-0+deb13u1\tgit-source\t%x\n/usr/bin/sh\t-\t-\t-\t-> dash\n",
		sha256.Sum256(files[0].Data), sha256.Sum256(files[1].Data))
	return files, list
}

func describe(t *testing.T, files []image.File, list string) (*spdx.Document, error) {
	t.Helper()
	origins, err := sbom.Origins(strings.NewReader(list))
	if err != nil {
		t.Fatal(err)
	}
	return sbom.Image(about, "amd64", files, origins)
}

func TestImage(t *testing.T) {
	files, list := content(t)
	made, err := describe(t, files, list)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := sbom.Write(&out, made); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		`"spdxVersion": "SPDX-2.3"`, `"created": "2001-09-09T01:46:40Z"`, `"fileName": "./usr/bin/git"`, `"comment": "symbolic link to dash"`,
		`pkg:deb/debian/git@1:2.47.3-0%2Bdeb13u1?arch=amd64&upstream=git-source`, `pkg:golang/stdlib@1.`,
		`"relationshipType": "STATIC_LINK"`, `"relationshipType": "EXPANDED_FROM_ARCHIVE"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the document lacks %s", want)
		}
	}
	read, err := json.Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(read); err != nil {
		t.Error(err)
	}
	if err := sbom.Check(read, files); err != nil {
		t.Error(err)
	}
	again, err := describe(t, files, list)
	if err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := sbom.Write(&out, again); err != nil || out.String() != text {
		t.Errorf("a second document differs: %v", err)
	}
}

// TestDifferences checks that each difference between an image, its list of files and its document is an error.
func TestDifferences(t *testing.T) {
	files, list := content(t)
	document, err := describe(t, files, list)
	if err != nil {
		t.Fatal(err)
	}
	changed := append([]image.File(nil), files...)
	changed[1].Data = []byte("evil")
	linked := append([]image.File(nil), files...)
	linked[2].Link = "bash"
	for _, tc := range []struct {
		name          string
		files         []image.File
		listed, check string
	}{
		{"more", append(files[:4:4], image.File{Path: "more"}), `the image has "more", which the list`, `"more" is not in the document`},
		{"less", append(files[:1:1], files[2:]...), `names "usr/bin/git", which the image lacks`, `names "usr/bin/git", which does not exist`},
		{"changed", changed, `"usr/bin/git" is "`, `"usr/bin/git": the document has the hashes`},
		{"linked", linked, `"usr/bin/sh" is "-> bash"`, `"usr/bin/sh": the document has the hashes`},
	} {
		if _, err := describe(t, tc.files, list); err == nil || !strings.Contains(err.Error(), tc.listed) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.listed)
		}
		if err := sbom.Check(document, tc.files); err == nil || !strings.Contains(err.Error(), tc.check) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.check)
		}
	}
	if _, err := sbom.Origins(strings.NewReader("usr/bin/git git\n")); err == nil {
		t.Error("a line without tabs is accepted")
	}
}
