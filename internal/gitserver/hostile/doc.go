// Package hostile makes repositories, and answers of servers, that attack who clones them: a table, for tests that
// assert that an attack gets nowhere.
//
// A caller may rely on two things. Every repository is complete and gets to a client over gitserver, with the case's
// Faults in front of it. Where a case has a Control, plain git or a careless use of it does let the
// attack succeed: this package's own tests try every one of them.
//
// Objects are written here and not by git, which would refuse to make most of them.
package hostile

import (
	"net/url"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/gitserver"
)

// Bait is what the attacks aim at, all of it set. A test makes it, hands it to Build, and looks at it afterwards.
type Bait struct {
	Canary  string // the absolute path of a file that is not there: a command that was smuggled in makes it
	Outside string // the absolute path of a directory, with a file "secret", that is nobody's business
	URL     string // a server on 127.0.0.1 that is nobody's business: "http://127.0.0.1:PORT"
}

// command is what is smuggled in.
func (b Bait) command() string { return "touch " + b.Canary }

// on is the server of URL by another name for its host.
func (b Bait) on(host string) string {
	u, err := url.Parse(b.URL)
	if err != nil {
		return b.URL
	}
	return "http://" + host + ":" + u.Port() + "/bait"
}

// Need is what a client must do for an attack to have a chance.
type Need string

const (
	Checkout   Need = "checkout"
	Submodules Need = "submodules"
	LFS        Need = "lfs"
)

// Effect is how an attack shows.
type Effect string

const (
	None   Effect = ""       // git itself holds, or nothing more than size or nuisance is to be seen
	Runs   Effect = "runs"   // Canary is there
	Asks   Effect = "asks"   // the server at URL was asked something
	Reads  Effect = "reads"  // the content of Outside's secret was printed
	Writes Effect = "writes" // Outside has changed
	Fails  Effect = "fails"  // git can't clone it
)

// Case is one attack.
type Case struct {
	Name   string
	Abuses string // the mechanism
	CVE    string // where it was published; empty when it was not, or is many
	Need   Need
	// Unwalkable says that git's own server refuses to read the objects: Faults sends them unread.
	Unwalkable bool
	// Effect is what Control, a script for sh, brings about: the positive control. It runs in an empty directory with
	// the repository's address in $REPO and the bait in $CANARY, $OUTSIDE and $BAIT.
	Effect  Effect
	Control string

	build  func(r *repo, bait Bait)
	bundle func(bait Bait) string // the address of a bundle that the server names
	sends  string                 // a file of the repository that the server sends as the pack of every fetch
}

// Faults are how gitserver has to serve the repository at path, for Route; mostly none.
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

// Build makes the bare repository `<dir>/<name>.git`, and others whose names begin with name if the attack needs them,
// and returns the commit of its branch main. None of them may exist.
func (c Case) Build(dir, name string, bait Bait) (string, error) {
	r := create(filepath.Join(dir, name+".git"))
	c.build(r, bait)
	return r.head, r.err
}

// Cases are all repositories. The names are distinct.
func Cases() []Case {
	return slices.Concat(moduleCases(), modulePathCases(), dotGitCases(), linkCases(), attributeCases(), lfsCases(), nameCases(), treeCases(), refCases())
}
