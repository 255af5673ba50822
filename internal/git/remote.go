package git

import (
	"context"
	"fmt"
	"strings"
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

// LsRefs asks url for the named refs (full names) and for HEAD: one ls-refs
// request with protocol 2. Names that the remote does not have are absent.
func (g *Git) LsRefs(ctx context.Context, url string, names ...string) (RemoteRefs, error) {
	args := []string{
		// A remote that takes the request and says nothing: curl ends it.
		"-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60",
		"ls-remote", "--quiet", "--symref", "--end-of-options", url, "HEAD",
	}
	want := map[string]bool{"HEAD": true}
	for _, n := range names {
		// ls-remote matches the tail of a name: the answer is filtered below.
		args = append(args, n, n+"^{}")
		want[n], want[n+"^{}"] = true, true
	}
	out, err := g.run(ctx, command{
		op: "ask for the refs of", url: url, args: args, dir: "/",
		uid: g.uid, gid: g.gid, remote: true,
	})
	if err != nil {
		return RemoteRefs{}, err
	}
	refs := RemoteRefs{Format: SHA1, IDs: make(map[string]string)}
	err = scan(out, func(line string) error {
		left, name, ok := strings.Cut(line, "\t")
		if !ok {
			return fmt.Errorf("ls-remote %s: unexpected line %q", url, line)
		}
		if target, ok := strings.CutPrefix(left, "ref: "); ok {
			// A remote may claim anything; only a branch can be checked out.
			if name == "HEAD" && strings.HasPrefix(target, "refs/heads/") {
				refs.Head = target
			}
			return nil
		}
		if want[name] {
			if !isObjectID(left) {
				return fmt.Errorf("ls-remote %s: %q is not an object ID", url, left)
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

// isObjectID reports whether s is a full SHA-1 or SHA-256 in lower-case hex.
func isObjectID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	return strings.Trim(s, "0123456789abcdef") == ""
}
