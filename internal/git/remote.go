package git

import (
	"context"
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
	// More is set when there are more refs below a name that ends with a slash than
	// IDs has of them.
	More bool
}

// LsRefs asks a remote for the named refs (full names) and for HEAD: over HTTP one
// ls-refs request, if the remote knows protocol 2, whose answer has hardly more
// than those; else the remote lists all that it has. A name that ends with a slash
// stands for all refs below it, up to MaxListed. Names that the remote does not
// have are absent. The memory that it takes does not depend on the answer.
func (g *Git) LsRefs(ctx context.Context, remote Remote, names ...string) (RemoteRefs, error) {
	if isHTTP(remote.URL) {
		if refs, ok, err := g.lsRefsHTTP(ctx, remote, names); ok || err != nil {
			return refs, err
		}
	}
	options := append(slices.Clone(askPatience), "ls-remote", "--quiet", "--symref", "--end-of-options")
	patterns := []string{"HEAD"}
	for _, n := range names {
		// ls-remote matches the tail of a name: lsRemote looks at all of it.
		if strings.HasSuffix(n, "/") {
			patterns = append(patterns, n+"*")
		} else {
			patterns = append(patterns, n, n+peeledSuffix)
		}
	}
	var out lsRemote
	_, err := g.runRemote(ctx, remote, Command{Op: askForRefs, question: true, Dir: "/", stdout: &out}, func(url string) []string {
		out = lsRemote{refCollector: newRefCollector(names)} // of an earlier try there may be some
		return slices.Concat(options, []string{url}, patterns)
	})
	if out.err != nil {
		return RemoteRefs{}, badAnswer(remote, out.err)
	}
	return out.refs, err
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
