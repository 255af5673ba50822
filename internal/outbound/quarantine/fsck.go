package quarantine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
)

// tolerated are the findings of git fsck that index-pack takes for errors and that are warnings here. Old programs have made
// such objects, public histories have them, and nobody can mend them without new IDs for all later commits. Whoever fetches
// them is not harmed: git reads them, and what it does not understand is shown differently at most. Findings that git calls
// infos, such as badFilemode and gitmodulesParse, are warnings anyway.
//
// All others stay refusals: names and links that lead out of a work tree or into .git, .gitmodules and .gitattributes that
// attack git, and objects that programs read differently, such as unsorted trees. badDateOverflow does too, because programs
// have crashed when they showed such a date. emptyName is not here because git can't read such a tree: the finding is badTree.
var tolerated = strings.Join([]string{
	// Git writes directories as 40000. Programs in Ruby and others wrote 040000.
	"zeroPaddedFilemode=warn",
	// A submodule without a commit, of converters and of merges by hand. git lists it, and refuses to check it out.
	"nullSha1=warn",
	// A message in UTF-16, or one with a binary attachment. git shows it up to the NUL.
	"nulInCommit=warn",
	// Tools that joined commits wrote one author after the other. git shows one of them.
	"multipleAuthors=warn",
	// The line of an author or a committer, as converters from other systems and old programs wrote it: git takes
	// what it can't read for an empty name, or for the time zero, and goes on.
	"badTimezone=warn", // +051800, or --700
	"badDate=warn",     // a second address in place of the date
	"zeroPaddedDate=warn",
	"missingSpaceBeforeDate=warn", // there is no date at all
	"missingSpaceBeforeEmail=warn",
	"missingEmail=warn", // a name alone
	"missingNameBeforeEmail=warn",
	"badEmail=warn", // an address in another one, as in A <a <a@example.com>>
	"badName=warn",  // the end of an address in a name
}, ",")

// check adds the new pack to the repository that is pushed from if git fsck finds nothing in its objects but what is
// tolerated, which is in t.Warnings then.
//
// index-pack takes severities after --strict only (after --fsck-objects since git 2.44), and --strict wants more: all that the
// objects refer to has to be here. It is, because the pack was made of what the branches need and the git layer has not. If
// the layer may lack contents of files, and --strict fails, which may be due to those, plain --fsck-objects decides.
func (t *Taken) check(ctx context.Context, pack *os.File) error {
	try := func(how string) error {
		var said warnings
		err := t.index(ctx, t.checked(), said.note, func(_ context.Context, w *bufio.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(pack, 0, t.Bytes))
			return err
		}, "--fix-thin", how)
		t.Warnings = said.list()
		return err
	}
	err := try("--strict=" + tolerated)
	if err != nil && t.layer.noBlobs && !ofOurs(err) {
		if err := git.SweepStore(t.checked()); err != nil { // of the pack, so that there are never more than two copies
			return err
		}
		err = try("--fsck-objects")
	}
	if e, ok := giterrorOf(err); ok && !ofOurs(err) {
		return refuse(Unusable, "git fsck rejects the new commits: %s", giterror.Printable(complaints(e.Stderr)))
	}
	return err
}

// complaints joins what git fsck said.
func complaints(stderr string) string {
	var list []string
	for line := range strings.Lines(stderr) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "error: "); ok {
			list = append(list, rest)
		} else if rest, ok := strings.CutPrefix(line, "fatal: "); ok && len(list) == 0 {
			list = append(list, rest)
		}
	}
	return strings.Join(list, "; ")
}

// maxWarnings is how many findings are kept, and maxWarning is the most that one may have, in bytes: git's longest words with
// an ID of SHA-256 have 150.
const maxWarnings, maxWarning = 20, 200

// warnings collects the findings that are no errors.
type warnings struct {
	first  []string
	others int64
	last   string
}

// finding is what git prints of one: the IDs, names and words are git's. What looks different is passed over.
var finding = regexp.MustCompile(`^warning: (object [0-9a-f]{40,64}: [A-Za-z0-9]+: [ -~]*)$`)

// note notes a line of git's stderr.
func (w *warnings) note(line string) {
	m := finding.FindStringSubmatch(line)
	if m == nil || m[1] == w.last { // of the author and of the committer
		return
	}
	w.last = m[1]
	if len(w.first) == maxWarnings {
		w.others++
		return
	}
	w.first = append(w.first, m[1][:min(len(m[1]), maxWarning)])
}

// list returns the findings, as Taken has them.
func (w *warnings) list() []string {
	if w.others == 0 {
		return w.first
	}
	return append(w.first, fmt.Sprintf("and %d more findings", w.others))
}
