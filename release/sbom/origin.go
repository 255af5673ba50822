package sbom

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"

	"github.com/helmdeck/repos/release/image"
)

// own is the package of files that the build itself makes.
const own = "-"

// Origin says which Debian package a file comes from.
type Origin struct {
	Package, Version, Source string
	Content                  string // the SHA-256, or "-> TARGET" of a symbolic link
}

// Origins reads a list of files as rootfs/build writes it: path, package, version, source package, and SHA-256 or
// "-> TARGET", separated by tabs.
func Origins(list io.Reader) (map[string]Origin, error) {
	origins := make(map[string]Origin)
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if len(f) != 5 {
			return nil, fmt.Errorf("%q: want path, package, version, source and hash, separated by tabs", lines.Text())
		}
		origins[strings.TrimPrefix(path.Clean("/"+f[0]), "/")] = Origin{Package: f[1], Version: f[2], Source: f[3], Content: f[4]}
	}
	return origins, lines.Err()
}

// isProgram reports whether a file is one of the programs, which no list names.
func isProgram(f image.File) bool { return f.Path == image.Program || f.Path == image.Command }

// compare returns an error for each file without an origin or with another content, and for each origin without a file.
func compare(files []image.File, origins map[string]Origin) error {
	var errs []error
	missing := maps.Clone(origins)
	for _, f := range files {
		if isProgram(f) {
			continue
		}
		origin, known := origins[f.Path]
		delete(missing, f.Path)
		content := fmt.Sprintf("%x", sha256.Sum256(f.Data))
		if f.Link != "" {
			content = "-> " + f.Link
		}
		if !known {
			errs = append(errs, fmt.Errorf("the image has %q, which the list of files does not name", f.Path))
		} else if origin.Content != content {
			errs = append(errs, fmt.Errorf("%q is %q in the image, and %q in the list of files", f.Path, content, origin.Content))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		errs = append(errs, fmt.Errorf("the list of files names %q, which the image lacks", name))
	}
	return errors.Join(errs...)
}

// debian adds a Debian package.
func (b *builder) debian(o Origin, arch string) common.ElementID {
	locator := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&upstream=%s", escape(o.Package), escape(o.Version), arch, escape(o.Source))
	return b.pkg(o.Package, o.Version, locator, "built from the Debian source package "+o.Source)
}

func escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), "+", "%2B") }
