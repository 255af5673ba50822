package tree

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/volume"
)

// plan matches the submodules of a commit's tree with the sections of its .gitmodules. A
// name, path or URL that could be an attack is an error of the submodule. A submodule
// without a section, or with update = none, stays an empty directory, as after git clone
// --recurse-submodules (which stops at the first one inside a submodule).
func (b *submoduleBuilder) plan(p superproject) []submodule {
	byPath := make(map[string]checkout.Submodule)
	for _, s := range p.found.Submodules {
		byPath[string(s.Path)] = s // like git, use the last section for a path
	}
	var list []submodule
	for _, link := range p.found.Gitlinks {
		b.seen = append(b.seen, path.Join(p.path, string(link.Path)))
		section, ok := byPath[string(link.Path)]
		if !ok || section.Update == "none" {
			continue
		}
		sub := submodule{name: string(section.Name), path: string(link.Path), commit: link.Commit, text: string(section.URL)}
		sub.leftOut = !b.spec.Files.Submodules.Wants(path.Join(p.path, sub.path))
		module := volume.ModuleURL{Text: sub.text, Base: p.url, Own: b.spec.URL}
		var err error
		if sub.urls, err = module.Resolve(b.trees.common.Schemes, b.trees.common.SubmodulesAsWritten); err != nil {
			sub.err = fmt.Errorf("its URL %w", fact(err))
		}
		if sub.text == "" {
			sub.refuse(errors.New(".gitmodules gives no URL for it"))
		}
		if problem := checkSubmodulePath(sub.name); problem != "" {
			sub.refuse(fmt.Errorf("its name %q %s", sub.name, problem))
		}
		if problem := checkSubmodulePath(sub.path); problem != "" {
			sub.refuse(fmt.Errorf("its path %s", problem))
		}
		list = append(list, sub)
	}
	checkSubmoduleNames(list)
	return list
}

// refuse sets the error of a submodule that is wrong in its commit.
func (s *submodule) refuse(err error) { s.err, s.urls, s.final = err, nil, true }

// fact rewrites an error of package volume for a URL that a repository gives: whoever reads
// it can't change that.
func fact(err error) error {
	if bad, ok := errors.AsType[*volume.OptionError](err); ok {
		return errors.New(bad.Fact())
	}
	return err
}

// checkSubmodulePath returns what is wrong with the path of a submodule or with its name,
// which becomes a path below .git/modules. It returns "" if nothing is.
func checkSubmodulePath(name string) (problem string) {
	switch {
	case strings.HasPrefix(name, "-"):
		return "begins with a dash"
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "contains a control character"
	}
	// A git on another system may read this and take a backslash for a separator.
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return "has a part that is empty, . or .."
		case strings.EqualFold(part, ".git"):
			return "has a part that is .git"
		}
	}
	return ""
}

// checkSubmoduleNames sets the error of those whose name is that of another, or is below
// it: one repository would be inside the other then.
func checkSubmoduleNames(list []submodule) {
	paths := make(map[string]string) // by name
	for i := range list {
		s := &list[i]
		switch other, ok := paths[s.name]; {
		case s.leftOut || s.err != nil:
		case ok:
			s.refuse(fmt.Errorf("it has the same name %q as %q", s.name, other))
		default:
			paths[s.name] = s.path
		}
	}
	for i := range list {
		s := &list[i]
		for dir := path.Dir(s.name); dir != "." && dir != "/" && s.err == nil && !s.leftOut; dir = path.Dir(dir) {
			if other, ok := paths[dir]; ok {
				s.refuse(fmt.Errorf("its name %q lies within that of %q", s.name, other))
			}
		}
	}
}
