package tree

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// reflogIdent is who made the entries of the reflogs. git writes the user that its configuration and
// machine name. A layer is for all containers of a ref, so it names none of them.
const reflogIdent = "helmdeck-repos <helmdeck-repos@localhost>"

// cloneLog writes the reflogs that `git clone` leaves: one entry for HEAD, its branch and origin/HEAD.
type cloneLog struct {
	top  string // the .git directory
	from string // the URL as git shows it
	at   time.Time
}

// cloneLog returns the log of a repository whose refs are those that the remote had at a time; now, if it is zero.
func (c *Collection) cloneLog(top string, u volume.URL, at time.Time) cloneLog {
	if at.IsZero() {
		at = c.now()
	}
	return cloneLog{top, withoutUser(u.String()), at}
}

// withoutUser removes the user name from a URL or its scp-like form, as git does in reflogs.
func withoutUser(url string) string {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "", url
	} else {
		scheme += "://"
	}
	host, _, _ := strings.Cut(rest, "/")
	return scheme + rest[strings.LastIndexByte(host, '@')+1:]
}

// cloned writes the entry of `git clone` for a ref, and the entries of HEAD that follow it.
func (l cloneLog) cloned(w *ownedWriter, ref, id string, more ...string) {
	w.mkdirs(l.top, filepath.Dir(filepath.Join("logs", ref)))
	zero := strings.Repeat("0", len(id))
	w.file(filepath.Join(l.top, "logs", ref), []byte(l.entry(zero, id, "clone: from "+l.from)+strings.Join(more, "")))
}

func (l cloneLog) entry(from, to, message string) string {
	return fmt.Sprintf("%s %s %s %d +0000\t%s\n", from, to, reflogIdent, l.at.Unix(), message)
}

// reflogs writes the reflogs of a repository whose refs are those of a clone, at the resolution r. store.Head
// is the remote's default branch, at the commit tip; both are empty if they are not known.
//
// A commit, and a ref that is neither branch nor tag, is what `git checkout` leaves after `git clone`: HEAD
// was at the default branch before. From that entry git knows where HEAD was detached.
func (l cloneLog) reflogs(w *ownedWriter, r meta.Resolution, head, tip string) {
	branch, isBranch := strings.CutPrefix(head, "refs/heads/")
	hasHead := isBranch && tip != ""
	if hasHead {
		l.cloned(w, "refs/remotes/origin/HEAD", tip)
	}
	switch {
	case strings.HasPrefix(r.Ref, "refs/heads/"):
		l.cloned(w, r.Ref, r.Commit)
		l.cloned(w, "HEAD", r.Commit)
	case strings.HasPrefix(r.Ref, "refs/tags/"), r.Ref == "HEAD":
		l.cloned(w, "HEAD", r.Commit)
	case hasHead:
		l.cloned(w, "HEAD", tip, l.entry(tip, r.Commit, "checkout: moving from "+branch+" to "+r.Commit))
	default:
		l.cloned(w, "HEAD", r.Commit, l.entry(r.Commit, r.Commit, "checkout: moving from "+r.Commit+" to "+r.Commit))
	}
}

// commitOf returns the commit that a ref of the list leads to, empty if the list does not have it.
func commitOf(refs []gitref.PackedRef, name string) string {
	for _, r := range refs {
		if r.Name == name {
			if r.Peeled != "" {
				return r.Peeled
			}
			return r.ID
		}
	}
	return ""
}
