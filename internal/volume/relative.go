package volume

import "strings"

// Port returns the URL's port, or its scheme's default.
func (u URL) Port() string {
	if u.port != "" {
		return u.port
	}
	return defaultPort[u.scheme]
}

// OverHTTP returns the repository's HTTP URL: the URL itself if its scheme is http or
// https, else the same host and path over https, where git-lfs expects the objects of a
// repository that is fetched over ssh.
func (u URL) OverHTTP() string {
	if u.scheme == "https" || u.scheme == "http" {
		return u.String()
	}
	return URL{scheme: "https", host: u.host, path: "/" + strings.TrimPrefix(u.path, "/")}.String()
}

// ParseRelative reads the URL of a submodule of u. As in git, one that begins with ./ or
// ../ is relative to u, and stays on u's host; ParseURL reads any other. The error is an
// *OptionError for "repo".
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
