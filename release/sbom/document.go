// Package sbom writes software bills of materials in SPDX 2.3, and compares them with what they describe.
//
// A document names each file with its hashes, each Debian package that a file comes from, and each Go module that a
// program was linked with. Equal inputs give equal documents. No licence is concluded.
package sbom

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/utils"

	"github.com/helmdeck/repos/release/image"
)

const (
	home    = "https://github.com/helmdeck/repos"
	unknown = "NOASSERTION"
)

// About is what a document says of itself.
type About struct {
	Name    string // of what is described, such as helmdeck-repos-amd64
	Version string
	Comment string // from which commit it was built, and with which Go
	Time    time.Time
}

// builder makes one document.
type builder struct {
	*spdx.Document
	about    About
	packages map[string]common.ElementID // by package URL
}

const (
	documentID = common.ElementID("DOCUMENT")
	productID  = common.ElementID("Package-product")
)

// Image describes the files of a plugin, or of an image for containers. It fails if the origins do not name exactly these
// files, the programs excepted, or other hashes.
func Image(about About, arch string, files []image.File, origins map[string]Origin) (*spdx.Document, error) {
	if err := compare(files, origins); err != nil {
		return nil, err
	}
	b := begin(about, "CONTAINER")
	for _, f := range files {
		id := b.file(f)
		if isProgram(f) {
			if err := b.modules(id, f.Data); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		} else if origin := origins[f.Path]; origin.Package != own {
			b.relate(id, common.TypeRelationshipExpandedFromArchive, b.debian(origin, arch))
		}
	}
	return b.end()
}

// Programs describes programs, such as those of the command for several systems.
func Programs(about About, programs []image.File) (*spdx.Document, error) {
	b := begin(about, "APPLICATION")
	for _, p := range programs {
		if err := b.modules(b.file(p), p.Data); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Path, err)
		}
	}
	return b.end()
}

func begin(about About, purpose string) *builder {
	b := &builder{about: about, packages: make(map[string]common.ElementID)}
	b.Document = &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: documentID,
		DocumentName:    about.Name + "-" + about.Version,
		DocumentComment: about.Comment,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "helmdeck-repos-release"}},
			Created:  about.Time.UTC().Format(time.RFC3339),
		},
		Packages: []*spdx.Package{{
			PackageName: about.Name, PackageSPDXIdentifier: productID, PackageVersion: about.Version,
			PackageDownloadLocation: home, PrimaryPackagePurpose: purpose,
			FilesAnalyzed: true, IsFilesAnalyzedTagPresent: true,
			PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		}},
	}
	b.relate(documentID, common.TypeRelationshipDescribe, productID)
	return b
}

// end completes the document. Its namespace contains a hash of all files, because each document needs one of its own.
func (b *builder) end() (*spdx.Document, error) {
	code, err := utils.GetVerificationCode(b.Files, "")
	if err != nil {
		return nil, err
	}
	b.Packages[0].PackageVerificationCode = &code
	b.DocumentNamespace = fmt.Sprintf("%s/spdx/%s-%s-%s", home, b.about.Name, b.about.Version, code.Value)
	return b.Document, nil
}

// file adds a file of the product. The hash of a symbolic link is that of its target's name, as in git.
func (b *builder) file(f image.File) common.ElementID {
	file := &spdx.File{
		FileName: "./" + f.Path, FileSPDXIdentifier: common.ElementID(fmt.Sprintf("File-%d", len(b.Files)+1)),
		Checksums: checksums(f), LicenseConcluded: unknown, LicenseInfoInFiles: []string{unknown}, FileCopyrightText: unknown,
	}
	if f.Link != "" {
		file.FileComment = "symbolic link to " + f.Link
	}
	b.Files = append(b.Files, file)
	b.relate(productID, common.TypeRelationshipContains, file.FileSPDXIdentifier)
	return file.FileSPDXIdentifier
}

// checksums returns both hashes of a file: SPDX demands SHA-1.
func checksums(f image.File) []common.Checksum {
	data := f.Data
	if f.Link != "" {
		data = []byte(f.Link)
	}
	old, sum := sha1.Sum(data), sha256.Sum256(data)
	return []common.Checksum{
		{Algorithm: common.SHA1, Value: hex.EncodeToString(old[:])},
		{Algorithm: common.SHA256, Value: hex.EncodeToString(sum[:])},
	}
}

// pkg adds a package that is known by its URL, and returns its ID. Only the first call with a URL adds it.
func (b *builder) pkg(name, version, url, source string) common.ElementID {
	id, known := b.packages[url]
	if known {
		return id
	}
	id = common.ElementID(fmt.Sprintf("Package-%d", len(b.packages)+1))
	b.packages[url] = id
	b.Packages = append(b.Packages, &spdx.Package{
		PackageName: name, PackageSPDXIdentifier: id, PackageVersion: version, PackageDownloadLocation: unknown,
		IsFilesAnalyzedTagPresent: true, PackageSourceInfo: source,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: url,
		}},
	})
	return id
}

func (b *builder) relate(from common.ElementID, what string, to common.ElementID) {
	b.Relationships = append(b.Relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to}, Relationship: what,
	})
}

// Write writes a document as JSON.
func Write(w io.Writer, d *spdx.Document) error {
	return json.Write(d, w, json.Indent(" "), json.EscapeHTML(false))
}
