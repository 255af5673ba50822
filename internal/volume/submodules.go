package volume

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Submodules says which submodules are checked out. The zero Submodules is none.
type Submodules struct {
	Levels Levels
	// Paths is a sorted, comma-separated list of patterns of paths, each with ! before it if it leaves out what it
	// matches. Empty: all.
	Paths string
}

// Levels says how deep submodules are checked out.
type Levels int

const (
	NoLevel   Levels = iota
	TopLevel         // those of the repository itself
	AllLevels        // also theirs
)

var levelWords = []string{"false", "true", "recursive"}

const (
	maxSubmodulePaths = 4096
	allowedSubmodules = "false, true, recursive, the latter two also with paths to have or, after a !, to leave out: true,libs/*,!libs/big"
)

// String returns the option's text.
func (s Submodules) String() string {
	word := levelWords[s.Levels]
	if s.Paths == "" {
		return word
	}
	return word + "," + s.Paths
}

// parseSubmodules reads a word and, after true and recursive, patterns of paths.
func parseSubmodules(text string) (s Submodules, problem string) {
	word, list, more := strings.Cut(text, ",")
	i, problem := indexOf(word, levelWords)
	switch {
	case problem != "":
		return s, problem
	case !more:
		return Submodules{Levels: Levels(i)}, ""
	case Levels(i) == NoLevel:
		return s, "names paths, but no submodule is checked out"
	case len(list) > maxSubmodulePaths:
		return s, "is longer than " + strconv.Itoa(maxSubmodulePaths) + " bytes"
	}
	var patterns []string
	for p := range strings.SplitSeq(list, ",") {
		pattern, not := strings.CutPrefix(p, "!")
		one, problem := parseDirs(pattern, "repository", checkPattern)
		if problem != "" || one == nil {
			return s, cmp.Or(problem, "names an empty directory")
		}
		if not {
			one[0] = "!" + one[0]
		}
		patterns = append(patterns, one[0])
	}
	slices.Sort(patterns)
	return Submodules{Levels: Levels(i), Paths: strings.Join(slices.Compact(patterns), ",")}, ""
}

func checkPattern(pattern string) (problem string) {
	if _, err := path.Match(pattern, "x"); err != nil || strings.ContainsRune(pattern, '\\') {
		return "has a pattern that is none: * and ? match within a name, and [abc] one character"
	}
	return ""
}

// patterns returns those that name what to have, and those that name what to leave out.
func (s Submodules) patterns() (have, leave []string) {
	if s.Paths == "" {
		return nil, nil
	}
	for p := range strings.SplitSeq(s.Paths, ",") {
		if not, ok := strings.CutPrefix(p, "!"); ok {
			leave = append(leave, not)
		} else {
			have = append(have, p)
		}
	}
	return have, leave
}

// Wants reports whether the submodule at dir, below the top of the repository, is checked out: as with git's
// pathspecs, a pattern matches what it names and all below it, no pattern that names something stands for everything,
// and what is left out is left out. A submodule that has one that is wanted is wanted too.
func (s Submodules) Wants(dir string) bool {
	have, leave := s.patterns()
	within := func(pattern string) bool { return covers(pattern, dir) }
	leadsTo := func(pattern string) bool { return s.Levels == AllLevels && leads(dir, pattern) }
	return s.Levels != NoLevel && (len(have) == 0 || slices.ContainsFunc(have, within) || slices.ContainsFunc(have, leadsTo)) && !slices.ContainsFunc(leave, within)
}

// Unmatched returns the patterns that name something to have, and match no submodule of a list.
func (s Submodules) Unmatched(dirs []string) []string {
	have, _ := s.patterns()
	return slices.DeleteFunc(have, func(pattern string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool { return covers(pattern, dir) })
	})
}

// Without returns the option that also leaves out the submodule at dir.
func (s Submodules) Without(dir string) Submodules {
	have, leave := s.patterns()
	some := len(have) > 0
	have = slices.DeleteFunc(have, func(pattern string) bool { return pattern == dir })
	if some && len(have) == 0 {
		return Submodules{}
	}
	var list []string
	for _, pattern := range append(leave, asPattern(dir)) {
		list = append(list, "!"+pattern)
	}
	s.Paths = strings.Join(append(have, list...), ",")
	return s
}

// asPattern returns a pattern for a path, which may have any bytes: what an option can't have, or a terminal can't
// show, becomes a question mark.
func asPattern(dir string) string {
	dir = strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]", ",", "?", `\`, "?").Replace(dir)
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, dir)
}

// covers reports whether a pattern matches a path or a directory above it.
func covers(pattern, dir string) bool {
	return strings.Count(pattern, "/") <= strings.Count(dir, "/") && alike(pattern, dir)
}

// leads reports whether what a pattern matches may be below a path.
func leads(dir, pattern string) bool {
	return strings.Count(pattern, "/") > strings.Count(dir, "/") && alike(pattern, dir)
}

// alike reports whether a pattern and a path match, as far as both go.
func alike(pattern, dir string) bool {
	patterns, names := strings.Split(pattern, "/"), strings.Split(dir, "/")
	for i := range min(len(patterns), len(names)) {
		if ok, err := path.Match(patterns[i], names[i]); !ok || err != nil {
			return false
		}
	}
	return true
}
