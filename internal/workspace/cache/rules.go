package cache

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// class says how a file or directory of a cache is published.
type class int

const (
	// never is not published: credentials, settings, locks, sockets, what a daemon or a half-done download needs.
	never class = iota
	// unit is a directory that a tool makes whole: all of it is published, if it is complete, and nobody has
	// published it. The union of two would mix versions.
	unit
	// keep is a file whose name says what is in it. The first one stays, because a tool does not write it again.
	keep
	// replace is an index that tools rewrite: the one that was written later stays, whichever was published first.
	replace
	// remote is a file of a Maven repository: see origins.
	remote
)

// rule is a line of the table.
type rule struct {
	// at is a path below the cache. An element is a pattern of path.Match; ** stands for any number of elements.
	at string
	as class
	unitRule
	// check is for a file, or the mark of a unit, that its tool does not rename into place. It may be nil.
	check check
	// again is set for a keep file that its tool does not rename into place, and writes again if a crash has cut it off: a
	// longer one replaces it.
	again bool
	// ever dates the files far in the future, so that Go neither sets their times at each use, which would copy them
	// up, nor deletes them.
	ever bool
}

// unitRule says when a unit is whole.
type unitRule struct {
	// mark is a pattern for a file in the unit that the tool makes last, or "".
	mark string
	// filled means that the mark is not empty.
	filled bool
	// torn are patterns for the names of files that only an unfinished unit has.
	torn []string
	// drop are patterns for the names of files of it that are not published.
	drop []string
	// partial means that the unit is a Go module: see unfinishedModule.
	partial bool
}

// rules are the lines of the table, by tool.
var rules = func() map[string][]rule {
	list := make(map[string][]rule)
	for _, r := range table {
		tool, _, _ := strings.Cut(r.at, "/")
		list[tool] = append(list[tool], r)
	}
	return list
}()

// ruleFor returns the rule for a path below the cache: the first line that matches, or never. Directories are units, or
// have no rule: as is never for them, too.
func ruleFor(rel string, dir bool) rule {
	tool, rest, below := strings.Cut(rel, "/")
	switch {
	case !below:
		return rule{} // a tool's directory, or one of topFiles
	case !slices.Contains(tools, tool):
		if dir || slices.Contains(homes, strings.ToLower(tool)) || secretName(tool, true) || secretPath(rest) || litter(path.Base(rel)) {
			return rule{}
		}
		return rule{as: replace}
	case !dir && (litter(path.Base(rel)) || settings(path.Base(rel))):
		return rule{}
	}
	for _, r := range rules[tool] {
		if dir && (r.as != unit && r.as != never) || !dir && r.as == unit || !match(r.at, rel) {
			continue
		}
		return r
	}
	return rule{}
}

// Unit returns the directory that is published as a whole and that has the path rel below it, or "". A part of one must
// not be missing: tools trust what they find of it.
func Unit(rel string) string {
	for dir := path.Dir(rel); dir != "." && dir != "/"; dir = path.Dir(dir) {
		if ruleFor(dir, true).as == unit {
			return dir
		}
	}
	return ""
}

// other reports whether a path is not that of a tool of the table.
func other(rel string) bool {
	tool, _, _ := strings.Cut(rel, "/")
	return !slices.Contains(tools, tool)
}

// match reports whether a path matches a pattern of the table.
func match(pattern, rel string) bool {
	for {
		p, rest, more := strings.Cut(pattern, "/")
		if p == "**" && !more {
			return true
		}
		if p == "**" {
			for !match(rest, rel) {
				var ok bool
				if _, rel, ok = strings.Cut(rel, "/"); !ok {
					return false
				}
			}
			return true
		}
		name, below, deeper := strings.Cut(rel, "/")
		if ok, _ := path.Match(p, name); !ok {
			return false
		}
		if !more || !deeper {
			return more == deeper
		}
		pattern, rel = rest, below
	}
}

// matchAny reports whether one of the patterns matches a name.
func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// litter reports whether a file has a name of locks, sockets, unfinished downloads, or of what belongs to an open database.
func litter(name string) bool { return matchAny(litterNames, strings.ToLower(name)) }

// settings reports whether a file has a name of settings or credentials that no download has.
func settings(name string) bool { return slices.Contains(settingsNames, strings.ToLower(name)) }

// secretPath reports whether a path has a name that credentials and settings have.
func secretPath(rel string) bool {
	dir, name := path.Split(rel)
	for dir != "" {
		var d string
		if d, dir, _ = strings.Cut(dir, "/"); secretName(d, true) {
			return true
		}
	}
	return secretName(name, false)
}

// secretName reports whether credentials and settings have such a name. In other tools' directories nobody has said what
// is in them, so too many names are better than too few: such a file is downloaded again.
func secretName(name string, dir bool) bool {
	name = strings.ToLower(name)
	if settings(name) || matchAny(secretNames, name) || matchAny(otherLitter, name) {
		return true
	}
	words := strings.FieldsFunc(name, func(c rune) bool { return !unicode.IsLetter(c) })
	if dir && len(words) != 1 || slices.Contains(sourceExts, path.Ext(name)) {
		return false // a package such as js-tokens, a file such as token.js
	}
	return slices.ContainsFunc(words, func(w string) bool {
		return slices.ContainsFunc(secretWords, func(s string) bool {
			return strings.HasSuffix(w, s) || strings.HasSuffix(strings.TrimSuffix(w, "s"), s)
		})
	})
}
