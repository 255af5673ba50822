// Package hostile makes repositories and server answers that attack the client: a table for tests
// that assert that attacks fail.
//
// Every repository is complete and can be fetched from gitserver with the case's Faults. If a case
// has a Control, the attack succeeds against plain git, or a careless use of it: this package's own
// tests run every Control.
//
// The package writes the objects itself, because git would refuse to make most of them.
package hostile

import (
	"net/url"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// Bait has the targets of the attacks, all of which must be set. A test makes it, passes it to
// Build, and checks it afterwards.
type Bait struct {
	Canary  string // absolute path of a file that does not exist: an injected command makes it
	Outside string // absolute path of a directory with a file "secret", which must not be accessed
	URL     string // a server on 127.0.0.1, "http://127.0.0.1:PORT", which must not be asked
}

// command returns the command that attacks try to inject.
func (b Bait) command() string { return "touch " + b.Canary }

// on returns a URL on Bait's server with another name for its host.
func (b Bait) on(host string) string {
	u, err := url.Parse(b.URL)
	if err != nil {
		return b.URL
	}
	return "http://" + host + ":" + u.Port() + "/bait"
}

// Need is what a client must do for an attack to be possible.
type Need string

const (
	Checkout   Need = "checkout"
	Submodules Need = "submodules"
	LFS        Need = "lfs"
)

// Effect is the visible effect of an attack.
type Effect string

const (
	None   Effect = ""       // no effect on plain git, except size or nuisance
	Runs   Effect = "runs"   // Canary exists
	Asks   Effect = "asks"   // the server at URL got a request
	Reads  Effect = "reads"  // the content of Outside/secret was printed
	Writes Effect = "writes" // Outside has changed
	Fails  Effect = "fails"  // git can't clone it
)

// Case is one attack.
type Case struct {
	Name   string
	Abuses string // the mechanism
	CVE    string // empty if none or several exist
	Need   Need
	// Unwalkable is set if git's own server refuses to read the objects: Faults sends them
	// unparsed.
	Unwalkable bool
	// Effect is the effect of Control, the positive control. Control is a script for sh, which runs
	// in an empty directory with the repository's URL in $REPO and the bait in $CANARY, $OUTSIDE
	// and $BAIT.
	Effect  Effect
	Control string

	build  func(r *repo, bait Bait)
	bundle func(bait Bait) string // URL of a bundle that the server offers
	sends  string                 // a file in the repository that the server sends as pack
}

// Faults returns the faults that gitserver's Route needs to serve the repository at path. Most
// cases need none.
func (c Case) Faults(path string, bait Bait) []gitserver.Fault {
	switch {
	case c.Unwalkable:
		return []gitserver.Fault{gitserver.SendAll(path)}
	case c.sends != "":
		return []gitserver.Fault{gitserver.SendFile(filepath.Join(path, c.sends))}
	case c.bundle != nil:
		return []gitserver.Fault{gitserver.Bundle(c.bundle(bait))}
	}
	return nil
}

// Build makes the bare repository `<dir>/<name>.git`, and others whose names begin with name if the
// attack needs them, and returns the commit of its branch main. None of them may exist.
func (c Case) Build(dir, name string, bait Bait) (string, error) {
	r := create(filepath.Join(dir, name+".git"))
	c.build(r, bait)
	return r.head, r.err
}

// Cases returns all cases. The names are distinct.
func Cases() []Case {
	return slices.Concat(moduleCases(), modulePathCases(), dotGitCases(), linkCases(), attributeCases(), lfsCases(), nameCases(), treeCases(), refCases())
}
