package git

import (
	"context"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/volume"
)

// RemoteRefs is a remote's answer to LsRefs.
type RemoteRefs struct {
	// Head is the branch that the remote's HEAD points to, such as "refs/heads/main";
	// empty if HEAD is detached or missing.
	Head string
	// Format is the format of the object IDs, SHA1 or SHA256.
	Format string
	// IDs has object IDs by full ref name, including "HEAD". The commit of an annotated
	// tag is under its name with "^{}" appended.
	IDs map[string]string
	// More is set if IDs does not have all refs below a name that ends with a slash.
	More bool
}

// LsRefs asks a remote for the refs with the given full names and for HEAD. Over HTTP
// with protocol 2 the answer has little more than those; otherwise the remote lists all
// refs. A name that ends with a slash stands for all refs below it, up to MaxListed. The
// result does not have names that the remote does not have. Memory use does not depend on
// the size of the answer.
func (g *Git) LsRefs(ctx context.Context, remote Remote, names ...string) (RemoteRefs, error) {
	if isHTTP(remote.URL) {
		if refs, ok, err := g.lsRefsHTTP(ctx, remote, names); ok || err != nil {
			return refs, err
		}
	}
	options := append(slices.Clone(askPatience), "ls-remote", "--quiet", "--symref", "--end-of-options")
	patterns := []string{"HEAD"}
	for _, n := range names {
		// ls-remote matches the end of a name; lsRemote compares the whole.
		if strings.HasSuffix(n, "/") {
			patterns = append(patterns, n+"*")
		} else {
			patterns = append(patterns, n, n+peeledSuffix)
		}
	}
	var out lsRemote
	_, err := g.runRemote(ctx, remote, Command{Op: askForRefs, question: true, Dir: "/", stdout: &out}, func(url string) []string {
		out = lsRemote{refCollector: newRefCollector(names)} // discard those of an earlier try
		return slices.Concat(options, []string{url}, patterns)
	})
	if out.err != nil {
		return RemoteRefs{}, badAnswer(remote, out.err)
	}
	return out.refs, err
}

// setHead sets the default branch, unless target is not a valid branch: a remote may
// claim anything.
func (r *RemoteRefs) setHead(target string) {
	if _, err := volume.ParseRef(target); err == nil && strings.HasPrefix(target, "refs/heads/") {
		r.Head = target
	}
}

// askPatience makes curl end a question when the remote accepts the request and then
// sends nothing.
var askPatience = []string{"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"}
