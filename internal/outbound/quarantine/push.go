package quarantine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/git/gitref"
)

// Target is where a branch is pushed to.
type Target struct {
	Remote git.Remote
	Branch string // of the remote, without refs/heads/
	// Lease, if not empty, is the commit that the remote's branch must be at. Then it is set to
	// the new commit, whether that is a descendant or not.
	Lease string
	// Credential is the name of the one that Remote uses, for errors; empty without one.
	Credential string
	// Moved, if not nil, is called with how many bytes of the pack the remote has taken since the last call, as far as git
	// says so. What git does here before it sends counts as some MiB, whenever it goes on.
	Moved func(n int64)
}

// CheckTarget returns a *Refusal unless a push to that branch, with that lease, may be tried.
func CheckTarget(branch, lease string) error {
	if err := checkBranch(branch); err != nil {
		return err
	}
	if short, ok := strings.CutPrefix(branch, "refs/"); ok { // git allows it, but nobody means refs/heads/refs/heads/main
		return refuse(Invalid, "%.80q is not the name of a remote branch that can be pushed to: give it without refs/heads/, such as %.80q", branch, strings.TrimPrefix(short, "heads/"))
	}
	if lease != "" && !gitref.IsObjectID(lease) {
		return refuse(Invalid, "--force-with-lease is %.80q: allowed is the full ID of the commit that the remote's branch is at", lease)
	}
	return nil
}

// Ask returns the commit that the target's branch is at, empty if there is none.
func (t Target) Ask(ctx context.Context, g *git.Git) (string, error) {
	answer, err := g.LsRefs(ctx, t.Remote, heads+t.Branch)
	return answer.IDs[heads+t.Branch], err
}

// maxSaid bounds what a remote says to a push, in bytes.
const maxSaid = 4 << 10

const opPush = "push to"

// Push sets the target's branch to the commit of b, which was taken. It is not an error if the
// branch is there already. The error is a *Refusal, or a *giterror.Error.
func (t *Taken) Push(ctx context.Context, to Target, b Branch, report Progress) error {
	var porcelain, words string
	sent := &sending{moved: to.Moved}
	c := t.in(t.checked(), git.Command{Op: opPush, Stderr: func(line string) {
		if p, ok := gitprogress.Parse(line); ok && !strings.HasPrefix(line, "remote: ") {
			report(strings.ToLower(p.Phase), p.Objects, p.Total)
			sent.note(p)
		}
		if said, ok := strings.CutPrefix(line, "remote: "); ok && len(words) < maxSaid {
			words += strings.TrimSpace(giterror.Printable(said)) + "\n"
		}
	}})
	c.Talk = func(_ context.Context, _ io.WriteCloser, stdout io.Reader) error {
		out, err := io.ReadAll(io.LimitReader(stdout, maxSaid))
		porcelain = string(out)
		io.Copy(io.Discard, stdout)
		return err
	}
	_, err := t.git.RunRemote(ctx, to.Remote, c, func(url string) []string {
		porcelain, words = "", "" // of an earlier try
		args := []string{
			"--git-dir=.", "-c", "core.abbrev=no",
			// The remote may have moved to commits that we do not have, and then lists none that
			// we have: without a negotiation git would send the whole history.
			"-c", "push.negotiate=true",
			"push", "--porcelain", "--progress", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no",
		}
		if to.Lease != "" {
			args = append(args, "--force-with-lease="+heads+to.Branch+":"+to.Lease)
		}
		return append(args, "--end-of-options", url, b.ID+":"+heads+to.Branch)
	})
	failpoint.Hit("quarantine/push/pushed")
	if status, ok := statusOf(porcelain, heads+to.Branch); ok && status.flag == '!' {
		return to.refused(status, b, words)
	}
	if e, ok := giterrorOf(err); ok && (e.Kind == giterror.KindAuth || e.Kind == giterror.KindNotFound) {
		e.Remedy = "the remote does not allow this push: store a credential that may push to it (docker repos credentials put), or check the rights of the one that is stored"
		if to.Credential != "" {
			e.Remedy = fmt.Sprintf("the remote does not allow credential %q to push: it may have expired, or lack the right to write to this repository", to.Credential)
		}
		if words != "" {
			e.Detail = quoted(words)
		}
	}
	return err
}

// sending finds out from git's progress how much a remote has taken.
type sending struct {
	moved func(n int64) // may be nil
	last  gitprogress.Progress
}

// localStep is what a step of git's work on this machine counts for, in bytes.
const localStep = 1 << 20

// note notes a line that git itself has printed.
func (s *sending) note(p gitprogress.Progress) {
	last := s.last
	s.last = p
	switch {
	case s.moved == nil:
	case p.Phase == "Writing objects":
		before := last.Bytes()
		if last.Phase != p.Phase {
			before = 0
		}
		s.moved(max(p.Bytes()-before, 0))
	case p.Objects != last.Objects || p.Phase != last.Phase: // it counts, or compresses
		s.moved(localStep)
	}
}

// status is what became of one ref, as git push --porcelain prints it.
type status struct {
	flag   byte   // '!' if it was refused
	reason string // of a refusal
}

// statusOf finds the line of a ref. git prints: flag, tab, from:to, tab, summary and reason.
func statusOf(porcelain, ref string) (s status, ok bool) {
	for line := range strings.Lines(porcelain) {
		fields := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3)
		if len(fields) == 3 && len(fields[0]) == 1 && strings.HasSuffix(fields[1], ":"+ref) {
			return status{fields[0][0], fields[2]}, true
		}
	}
	return status{}, false
}

// refused explains why the remote's branch was not set. words is what the remote said.
func (t Target) refused(s status, b Branch, words string) error {
	branch, url := printable(t.Branch), t.Remote.URL
	switch {
	case strings.Contains(s.reason, "stale info"):
		return refuse(Conflict, "branch %s of %s is not at %s, the commit that --force-with-lease names: look at what it has now", branch, url, t.Lease)
	case strings.HasPrefix(s.reason, "[rejected]"):
		return refuse(Conflict, "branch %s of %s has commits that %s does not have: fetch and merge them in the container, push to another branch, "+
			"or name the commit that may be overwritten (--force-with-lease)", branch, url, b.ID)
	}
	reason := strings.TrimPrefix(s.reason, "[remote rejected] ")
	said := giterror.Printable(strings.Trim(reason, "()"))
	if words != "" {
		said += ": " + quoted(words)
	}
	return refuse(Denied, "%s refuses branch %s: %s", url, branch, said)
}

// quoted quotes what a remote said.
func quoted(words string) string {
	return "it says: " + printable(strings.Join(strings.Split(strings.TrimSpace(words), "\n"), " | "))
}

// Bundle returns a git bundle of t, and its size in bytes. Close it.
// A bundle without new commits is a *Refusal, because git refuses it too.
func (t *Taken) Bundle() (content io.ReadCloser, size int64, err error) {
	if t.Objects == 0 {
		return nil, 0, refuse(Conflict, "there is nothing to export: the volume began with all commits of the branch")
	}
	version := "# v2 git bundle\n"
	if t.layer.format == gitref.SHA256 {
		version = "# v3 git bundle\n@object-format=sha256\n"
	}
	var refs strings.Builder
	for _, branch := range t.Branches {
		name := heads + branch.Name
		if branch.Name == "" {
			name = "HEAD"
		}
		fmt.Fprintf(&refs, "%s %s\n", branch.ID, name)
	}
	refs.WriteString("\n")
	b := new(bundle)
	if b.needs, err = os.Open(t.needs()); err != nil {
		return nil, 0, err
	}
	if b.pack, err = os.Open(t.pack()); err != nil {
		return nil, 0, errors.Join(err, b.needs.Close())
	}
	info, err := b.needs.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, b.Close())
	}
	b.Reader = io.MultiReader(strings.NewReader(version), b.needs, strings.NewReader(refs.String()), b.pack)
	return b, int64(len(version)) + info.Size() + int64(refs.Len()) + t.Bytes, nil
}

// bundle is a bundle that is read.
type bundle struct {
	io.Reader
	needs, pack *os.File
}

func (b *bundle) Close() error { return errors.Join(b.needs.Close(), b.pack.Close()) }
