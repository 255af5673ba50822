package checkout

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// answer is the output of a job's process.
type answer struct {
	Failure *failure `json:",omitempty"`
	Large   bool     // the index was made, and is large
	Found
}

// failure is an error of a job.
type failure struct {
	Unlike bool
	Full   bool        // a filesystem is full
	Quota  bool        // a quota is used up
	Memory bool        // not enough memory
	Signal int         // that ended git
	Stderr gitref.Text // of git
	Text   gitref.Text
}

// check returns an error for an answer that no correct job gives, such as names that git
// refuses in an index.
func (a answer) check(c Spec) error {
	if err := a.Found.check(c.SizeFactor); err != nil {
		return err
	}
	for _, p := range a.Pointers {
		if !isLocal(p.Path) || len(p.OID) != 2*sha256.Size || !gitref.IsObjectID(p.OID) || p.Size < 0 {
			return fmt.Errorf("%q is not a git-lfs pointer", giterror.Printable(string(p.Path)))
		}
	}
	for _, s := range a.Stamps {
		if !isLocal(s.Path) || s.Mtime < 0 {
			return fmt.Errorf("%q is not the path of a file", giterror.Printable(string(s.Path)))
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
func isLocal(name gitref.Text) bool {
	return filepath.IsLocal(string(name)) && filepath.Clean(string(name)) == string(name) && len(name) <= maxName && name != "."
}

// check returns an error if a list is longer than the plugin supports.
func (f Found) check(factor git.SizeFactor) error {
	pointers, links := factor.Of(maxPointers), factor.Of(maxGitlinks)
	switch {
	case len(f.Pointers) > pointers:
		return fmt.Errorf("more than %d files are kept by git-lfs %s: raise the setting, or use lfs=false, and fetch those that are needed in the container", pointers, git.SizeSetting)
	case len(f.Gitlinks) > links:
		return fmt.Errorf("there are more than %d submodules %s", links, git.SizeSetting)
	case len(f.Submodules) > links:
		return fmt.Errorf(".gitmodules has more than %d sections %s", links, git.SizeSetting)
	case len(f.Stamps) > maxStamps:
		return fmt.Errorf("the answer names more than %d files that need another time", maxStamps)
	case len(f.Unencoded) > maxUnencoded:
		return fmt.Errorf("the answer names more than %d files that could not be encoded", maxUnencoded)
	}
	return nil
}
