package sbom

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spdx/tools-golang/spdx"

	"github.com/helmdeck/repos/release/image"
)

// Check returns an error for each file that the document lacks, has with another hash, or names in vain.
func Check(d *spdx.Document, files []image.File) error {
	var errs []error
	named := make(map[string]*spdx.File, len(d.Files))
	for _, f := range d.Files {
		named[strings.TrimPrefix(f.FileName, "./")] = f
	}
	for _, f := range files {
		entry, known := named[f.Path]
		delete(named, f.Path)
		if !known {
			errs = append(errs, fmt.Errorf("%q is not in the document", f.Path))
		} else if want := checksums(f); !slices.Equal(entry.Checksums, want) {
			errs = append(errs, fmt.Errorf("%q: the document has the hashes %v, the file has %v", f.Path, entry.Checksums, want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		errs = append(errs, fmt.Errorf("the document names %q, which does not exist", name))
	}
	return errors.Join(errs...)
}
