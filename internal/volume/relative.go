package volume

import "strings"

// Port returns the port: the one that the URL gives, or its scheme's.
func (u URL) Port() string {
	if u.port != "" {
		return u.port
	}
	return defaultPort[u.scheme]
}

// OverHTTP returns where the repository is over HTTP: the URL itself if its scheme is
// http or https, and for others the same path at the same host over https, which is
// where git-lfs expects the large files of a repository that is fetched over ssh.
func (u URL) OverHTTP() string {
	if u.scheme == "https" || u.scheme == "http" {
		return u.String()
	}
	return URL{scheme: "https", host: u.host, path: "/" + strings.TrimPrefix(u.path, "/")}.String()
}

// ParseRelative reads the URL of a submodule of u: one that begins with ./ or ../
// stands, as for git, for a place beside u, and anything else is read by
// ParseURL. It never leaves u's host. The error is an *OptionError for "repo".
func (u URL) ParseRelative(text string, schemes Schemes) (URL, error) {
	if !strings.HasPrefix(text, "./") && !strings.HasPrefix(text, "../") {
		return ParseURL(text, schemes)
	}
	path, rest := u.path, text
	for {
		if after, ok := strings.CutPrefix(rest, "./"); ok {
			rest = after
			continue
		}
		after, ok := strings.CutPrefix(rest, "../")
		if !ok {
			break
		}
		if strings.Trim(path, "/") == "" {
			return URL{}, newOptionError(optRepo, text, "leads above the top of the superproject's host", schemes.allowed())
		}
		path, rest = path[:max(0, strings.LastIndexByte(path, '/'))], after
	}
	// A path of the scp-like form need not begin with a slash.
	if path != "" || !u.scp {
		path += "/"
	}
	u.path = path + rest
	return ParseURL(u.String(), schemes)
}
