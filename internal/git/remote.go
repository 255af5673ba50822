package git

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/volume"
)

// RemoteRefs is what a remote said of the refs that it was asked for.
type RemoteRefs struct {
	// Head is the branch that the remote's HEAD stands for, such as
	// "refs/heads/main"; empty when HEAD is detached or there is none.
	Head string
	// Format is that of the object IDs, SHA1 or SHA256.
	Format string
	// IDs holds object IDs by full ref name, "HEAD" among them. The commit
	// behind an annotated tag is under its name with "^{}" appended.
	IDs map[string]string
}

// LsRefs asks a remote for the named refs (full names) and for HEAD: over HTTP one
// ls-refs request, if the remote knows protocol 2, whose answer has hardly more
// than those; else the remote lists all that it has. Names that the remote does not have are absent.
func (g *Git) LsRefs(ctx context.Context, remote Remote, names ...string) (RemoteRefs, error) {
	if isHTTP(remote.URL) {
		if refs, ok, err := g.lsRefsHTTP(ctx, remote, names); ok || err != nil {
			return refs, err
		}
	}
	options := append(slices.Clone(askPatience), "ls-remote", "--quiet", "--symref", "--end-of-options")
	patterns := []string{"HEAD"}
	want := map[string]bool{"HEAD": true}
	for _, n := range names {
		// ls-remote matches the tail of a name: the answer is filtered below.
		patterns = append(patterns, n, n+"^{}")
		want[n], want[n+"^{}"] = true, true
	}
	out, err := g.runRemote(ctx, remote, command{op: askForRefs, question: true, dir: "/"}, func(url string) []string {
		return slices.Concat(options, []string{url}, patterns)
	})
	if err != nil {
		return RemoteRefs{}, err
	}
	refs := RemoteRefs{Format: SHA1, IDs: make(map[string]string)}
	err = scan(out, func(line string) error {
		left, name, ok := strings.Cut(line, "\t")
		if !ok {
			return fmt.Errorf("ls-remote %s: unexpected line %q", remote.URL, line)
		}
		if target, ok := strings.CutPrefix(left, "ref: "); ok {
			if name == "HEAD" {
				refs.setHead(target)
			}
			return nil
		}
		if want[name] {
			if !isObjectID(left) {
				return fmt.Errorf("ls-remote %s: %q is not an object ID", remote.URL, left)
			}
			refs.IDs[name] = left
			if len(left) == 64 {
				refs.Format = SHA256
			}
		}
		return nil
	})
	return refs, err
}

// setHead takes target for the default branch. A remote may claim anything; only a
// branch can be checked out.
func (r *RemoteRefs) setHead(target string) {
	if _, err := volume.ParseRef(target); err == nil && strings.HasPrefix(target, "refs/heads/") {
		r.Head = target
	}
}

// askPatience has curl end a question of which a remote takes the request and then
// says nothing.
var askPatience = []string{"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"}

// isObjectID reports whether s is a full SHA-1 or SHA-256 in lower-case hex.
func isObjectID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
