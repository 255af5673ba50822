package tree

import (
	"errors"
	"fmt"
	"strings"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/volume"
)

// submodule is one that is to be checked out: what the repository says of it, and
// it was found to be harmless.
type submodule struct {
	name, path, commit string
	url                volume.URL
}

// fail is an error about a submodule.
func (s submodule) fail(err error) error {
	return fmt.Errorf("submodule %q (%s): %w", s.path, s.url, err)
}

// planSubmodules matches the submodules of a commit's tree with the sections of
// its .gitmodules, and refuses those whose name, path or URL could be an attack.
// A submodule without a section is left as an empty directory, as by git clone
// --recurse-submodules (which within submodules stops there); so is one that is not
// to be updated. Relative URLs are those of places beside base.
func planSubmodules(links []checkout.Gitlink, sections []checkout.Submodule, base volume.URL, schemes volume.Schemes) ([]submodule, error) {
	byPath := make(map[string]checkout.Submodule)
	for _, s := range sections {
		byPath[string(s.Path)] = s // of two for one path, git takes the last
	}
	var list []submodule
	for _, link := range links {
		section, ok := byPath[string(link.Path)]
		if !ok || section.Update == "none" {
			continue
		}
		sub := submodule{name: string(section.Name), path: string(link.Path), commit: link.Commit}
		if problem := checkSubmodulePath(sub.path); problem != "" {
			return nil, fmt.Errorf("submodule %q: its path %s", sub.path, problem)
		}
		if problem := checkSubmodulePath(sub.name); problem != "" {
			return nil, fmt.Errorf("submodule %q: its name %q %s", sub.path, sub.name, problem)
		}
		if section.URL == "" {
			return nil, fmt.Errorf("submodule %q: .gitmodules gives no URL for it", sub.path)
		}
		var err error
		if sub.url, err = base.ParseRelative(string(section.URL), schemes); err != nil {
			return nil, fmt.Errorf("submodule %q: its URL %w", sub.path, urlProblem(err))
		}
		list = append(list, sub)
	}
	return list, checkSubmoduleNames(list)
}

// urlProblem is an error of volume's about a URL that is not a volume's option.
func urlProblem(err error) error {
	if bad, ok := errors.AsType[*volume.OptionError](err); ok {
		return fmt.Errorf("%q %s; allowed: %s", bad.Value, bad.Problem, bad.Allowed)
	}
	return err
}

// checkSubmodulePath judges the path of a submodule, or its name, which becomes a
// path below .git/modules.
func checkSubmodulePath(path string) (problem string) {
	switch {
	case strings.HasPrefix(path, "-"):
		return "begins with a dash"
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "contains a control character"
	}
	// A backslash separates too, for a git on another system that gets to see this.
	for part := range strings.SplitSeq(strings.ReplaceAll(path, `\`, "/"), "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return "has a part that is empty, . or .."
		case strings.EqualFold(part, ".git"):
			return "has a part that is .git"
		}
	}
	return ""
}

// checkSubmoduleNames refuses names of which one is a directory of the other: the
// repository of the one would lie within that of the other.
func checkSubmoduleNames(list []submodule) error {
	names := make(map[string]string)
	for _, s := range list {
		if other, ok := names[s.name]; ok {
			return fmt.Errorf("submodules %q and %q have the same name %q", other, s.path, s.name)
		}
		names[s.name] = s.path
	}
	for _, s := range list {
		for i, r := range s.name {
			if r != '/' {
				continue
			}
			if other, ok := names[s.name[:i]]; ok {
				return fmt.Errorf("submodule %q: its name %q lies within that of %q", s.path, s.name, other)
			}
		}
	}
	return nil
}
