package volume

import (
	"net/url"
	"slices"
	"strings"
)

// ModuleURL is the URL of a submodule, as .gitmodules has it.
type ModuleURL struct {
	Text string
	Base URL // of the repository that has the file
	Own  URL // of the volume
}

// Resolve returns the URLs at which the submodule may be, the likeliest first. The error is an *OptionError for "repo".
//
// As in git, a text that begins with ./ or ../ is relative to Base, and ParseURL reads any other. An ssh or git URL of
// Base's host or Own's, whatever its port and user, is taken to the transport, the port and the user with which that
// repository is fetched, because that is how the volume gets in there; the URL itself is the last choice, if schemes
// allows it. With asWritten, it is the only one.
func (m ModuleURL) Resolve(schemes Schemes, asWritten bool) ([]URL, error) {
	var list []URL
	if u, problem := parseAnyURL(m.Text); problem == "" && !asWritten {
		for _, via := range []URL{m.Base, m.Own} {
			if list == nil {
				list = u.takenTo(via)
			}
		}
	}
	u, err := m.Base.ParseRelative(m.Text, schemes)
	if err == nil {
		list = append(list, u)
	}
	if len(list) > 0 {
		err = nil
	}
	return list, err
}

// sshHosts are names under which hosting services answer ssh besides, or instead of, that of their web server.
var sshHosts = map[string]string{
	"ssh.github.com": "github.com", "altssh.gitlab.com": "gitlab.com", "altssh.bitbucket.org": "bitbucket.org", azureSSH: "dev.azure.com",
}

const azureSSH = "ssh.dev.azure.com"

// takenTo returns the URLs that the repository of an ssh or git URL has over the transport of another repository of its
// host; nil if it is no such URL. The second, if there is one, is for a server whose repositories are below a path that
// ssh does not have, such as /scm or /gitlab.
func (u URL) takenTo(via URL) (list []URL) {
	host := u.host
	if web, ok := sshHosts[host]; ok && u.scheme == "ssh" {
		host = web
	}
	path := strings.TrimPrefix(strings.TrimPrefix(u.path, "/"), "~/")
	if u.scheme != "ssh" && u.scheme != "git" || u.scheme == via.scheme || host != via.host || strings.HasPrefix(path, "~") {
		return nil // a path below the home of a user is no path of the server
	}
	if u.host == azureSSH {
		parts := strings.SplitN(path, "/", 4)
		if len(parts) != 4 || parts[0] != "v3" {
			return nil
		}
		path = parts[1] + "/" + parts[2] + "/_git/" + parts[3]
	}
	if u.scp {
		path = strings.ReplaceAll(path, "%", "%25") // which this form does not decode
	}
	top := "/"
	if via.scp {
		top = via.path[:len(via.path)-len(strings.TrimLeft(via.path, "/"))]
		path, _ = url.PathUnescape(path)
	}
	for _, prefix := range append([]string{""}, via.prefixOf(path)...) {
		to := via
		to.path = top + prefix + path
		// What this form can't have, such as a ? in the path, is no URL.
		if again, err := ParseURL(to.String(), AllSchemes()); err == nil && again.scheme == via.scheme && again.host == via.host {
			list = append(list, again)
		}
	}
	return list
}

// prefixOf returns the path below which an http server may have all its repositories, if u is the URL of one and path
// that of another over ssh: what precedes the first part that they have in common, or else the first part.
func (u URL) prefixOf(path string) []string {
	parts := strings.Split(strings.Trim(u.path, "/"), "/")
	first, _, _ := strings.Cut(path, "/")
	if !u.isHTTP() || len(parts) < 3 || parts[0] == first {
		return nil
	}
	at := max(1, slices.Index(parts, first))
	return []string{strings.Join(parts[:at], "/") + "/"}
}
