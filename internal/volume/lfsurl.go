package volume

import (
	"slices"
	"strings"
)

// ParseLFS reads the URL of the LFS server that the .lfsconfig of the repository u names, and returns it over https or http
// without a user. If beside is set, the URL is that of a repository, and the server is the one beside that.
//
// As in git-lfs, an ssh or git URL is that of a repository. On u's host, whatever its port and user, it is taken to
// the server of u.OverHTTP, as ModuleURL.Resolve takes that of a submodule, because LFS objects are fetched over nothing
// else. Elsewhere it is refused. The error is an *OptionError for "repo".
func (u URL) ParseLFS(text string) (server URL, beside bool, err error) {
	given, problem := parseAnyURL(text)
	if problem != "" || given.isHTTP() || !AllSchemes().Allows(given.scheme) {
		server, err = ParseURL(text, Schemes{})
		return server.WithoutUser(), false, err
	}
	own, err := ParseURL(u.OverHTTP(), Schemes{})
	if err != nil {
		return URL{}, false, err
	}
	given.path = strings.TrimSuffix(given.path, "/info/lfs") // which git-lfs adds to a repository's URL
	list := given.takenTo(own)
	if len(list) == 0 {
		problem = "has the scheme " + given.scheme + ", which only a URL on the repository's host may have"
		return URL{}, false, refuse(optRepo, text, problem, Schemes{}.allowed())
	}
	if slices.ContainsFunc(list, func(at URL) bool { return at.Normalized() == own.Normalized() }) {
		return own, true, nil
	}
	return list[0], true, nil
}
