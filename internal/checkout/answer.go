package checkout

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/gitref"
)

// list is a slice whose decoding fails after maxListed elements.
type list[T any] []T

// maxListed is more than any list of an answer may have, so that check can say which list
// is too long.
const maxListed = maxPointers + 1

func (l *list[T]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if _, err := d.Token(); err != nil || string(data) == "null" {
		return err
	}
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			return err
		}
		if *l = append(*l, v); len(*l) > maxListed {
			return fmt.Errorf("a list has more than %d elements", maxListed)
		}
	}
	return nil
}

// answer is the output of a job's process.
type answer struct {
	Failure *failure `json:",omitempty"`
	Large   bool     // the index was made, and is large
	Found
}

// failure is an error of a job.
type failure struct {
	Unlike bool
	Full   bool     // a filesystem is full
	Memory bool     // not enough memory
	Signal int      // that ended git
	Stderr git.Text // of git
	Text   git.Text
}

// check returns an error for an answer that no correct job gives, such as names that git
// refuses in an index.
func (a answer) check(c Spec) error {
	if err := a.Found.check(); err != nil {
		return err
	}
	for _, p := range a.Pointers {
		if !isLocal(p.Path) || len(p.OID) != 2*sha256.Size || !gitref.IsObjectID(p.OID) || p.Size < 0 {
			return fmt.Errorf("%q is not a git-lfs pointer", giterror.Printable(string(p.Path)))
		}
	}
	for _, l := range a.Gitlinks {
		if !isLocal(l.Path) || len(l.Commit) != len(c.Commit) || !gitref.IsObjectID(l.Commit) {
			return fmt.Errorf("%q is not a submodule", giterror.Printable(string(l.Path)))
		}
	}
	return nil
}

// isLocal reports whether name can be the path of a file in a work tree.
func isLocal(name git.Text) bool {
	return filepath.IsLocal(string(name)) && filepath.Clean(string(name)) == string(name) && len(name) <= maxName && name != "."
}

// check returns an error if a list is longer than the plugin supports.
func (f Found) check() error {
	switch {
	case len(f.Pointers) > maxPointers:
		return fmt.Errorf("more than %d files are kept by git-lfs: use lfs=false, and fetch those that are needed in the container", maxPointers)
	case len(f.Gitlinks) > maxGitlinks:
		return fmt.Errorf("there are more than %d submodules", maxGitlinks)
	case len(f.Submodules) > maxGitlinks:
		return fmt.Errorf(".gitmodules has more than %d sections", maxGitlinks)
	case len(f.Unencoded) > maxUnencoded:
		return fmt.Errorf("the answer names more than %d files that could not be encoded", maxUnencoded)
	}
	return nil
}
