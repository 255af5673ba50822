package checkout

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/lfs"
)

// octets is a string that need not be UTF-8, as the names in a repository: JSON has it
// as base64.
type octets string

func (o octets) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(o)) }

func (o *octets) UnmarshalJSON(data []byte) error {
	var b []byte
	err := json.Unmarshal(data, &b)
	*o = octets(b)
	return err
}

// atMost is a list that is decoded up to maxListed elements.
type atMost[T any] []T

// maxListed is more than any list of an answer may have, so that one with too many is
// told by what it is a list of.
const maxListed = maxPointers + 1

func (l *atMost[T]) UnmarshalJSON(data []byte) error {
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

// answer is what a process says when it has done its job.
type answer struct {
	Failure    *failure `json:",omitempty"`
	Large      bool     // the index is made, and is large
	Tracked    bool
	Pointers   atMost[wirePointer]
	LFSURL     octets
	Gitlinks   atMost[wireGitlink]
	Submodules atMost[wireSubmodule]
	Unencoded  atMost[wireUnencoded]
}

// failure is an error of a job.
type failure struct {
	Unlike bool
	Full   bool   // a filesystem was
	Memory bool   // there is not enough
	Signal int    // that has ended git
	Stderr octets // of git
	Text   octets
}

type wirePointer struct {
	Path octets
	OID  string
	Size int64
}

type wireGitlink struct {
	Path   octets
	Commit string
}

type wireSubmodule struct{ Name, Path, URL, Update octets }

type wireUnencoded struct{ Path, Encoding octets }

func toWire(pointers []lfs.Pointer) (list []wirePointer) {
	for _, p := range pointers {
		list = append(list, wirePointer{octets(p.Path), p.OID, p.Size})
	}
	return list
}

func fromWire(pointers []wirePointer) (list []lfs.Pointer) {
	for _, p := range pointers {
		list = append(list, lfs.Pointer{Path: string(p.Path), OID: p.OID, Size: p.Size})
	}
	return list
}

// answer is what a job found, as it says it.
func (f Found) answer() answer {
	a := answer{Tracked: f.Tracked, Pointers: toWire(f.Pointers), LFSURL: octets(f.LFSURL)}
	for _, l := range f.Gitlinks {
		a.Gitlinks = append(a.Gitlinks, wireGitlink{octets(l.Path), l.Commit})
	}
	for _, s := range f.Submodules {
		a.Submodules = append(a.Submodules, wireSubmodule{octets(s.Name), octets(s.Path), octets(s.URL), octets(s.Update)})
	}
	for _, u := range f.Unencoded {
		a.Unencoded = append(a.Unencoded, wireUnencoded{octets(u.Path), octets(u.Encoding)})
	}
	return a
}

func (a answer) found() Found {
	f := Found{Tracked: a.Tracked, Pointers: fromWire(a.Pointers), LFSURL: string(a.LFSURL)}
	for _, l := range a.Gitlinks {
		f.Gitlinks = append(f.Gitlinks, Gitlink{string(l.Path), l.Commit})
	}
	for _, s := range a.Submodules {
		f.Submodules = append(f.Submodules, Submodule{string(s.Name), string(s.Path), string(s.URL), string(s.Update)})
	}
	for _, u := range a.Unencoded {
		f.Unencoded = append(f.Unencoded, Unencoded{string(u.Path), string(u.Encoding)})
	}
	return f
}

// check returns an error if an answer holds what git would not have let into an index,
// or what no job gives.
func (a answer) check(c Spec) error {
	if err := a.found().check(); err != nil {
		return err
	}
	for _, p := range a.Pointers {
		if !isLocal(p.Path) || len(p.OID) != 2*sha256.Size || !git.IsObjectID(p.OID) || p.Size < 0 {
			return fmt.Errorf("%q is no pointer of git-lfs", git.Printable(string(p.Path)))
		}
	}
	for _, l := range a.Gitlinks {
		if !isLocal(l.Path) || len(l.Commit) != len(c.Commit) || !git.IsObjectID(l.Commit) {
			return fmt.Errorf("%q is no submodule", git.Printable(string(l.Path)))
		}
	}
	return nil
}

// isLocal reports whether a name can be that of a file in a work tree.
func isLocal(name octets) bool {
	return filepath.IsLocal(string(name)) && filepath.Clean(string(name)) == string(name) && len(name) <= maxName && name != "."
}

// check returns an error if there is more than the plugin deals with.
func (f Found) check() error {
	switch {
	case len(f.Pointers) > maxPointers:
		return fmt.Errorf("more than %d files are kept by git-lfs: use lfs=false, and fetch those that are needed in the container", maxPointers)
	case len(f.Gitlinks) > maxGitlinks:
		return fmt.Errorf("there are more than %d submodules", maxGitlinks)
	case len(f.Submodules) > maxGitlinks:
		return fmt.Errorf(".gitmodules has more than %d sections", maxGitlinks)
	case len(f.Unencoded) > maxUnencoded:
		return fmt.Errorf("more than %d files that could not be encoded are named", maxUnencoded)
	}
	return nil
}
