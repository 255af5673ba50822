package volume

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// History says how much of a repository's history a store holds. Each has its own store, because a shallow fetch
// into a full store truncates it. The zero History is all of it.
type History struct {
	Depth   int  // commits from the tips of branches and tags; 0: all
	NoBlobs bool // file contents are fetched when a checkout needs them (filter blob:none)
	Cold    bool // only in ColdHistory
}

// ColdHistory is what a volume with cold=shallow gets until the full history was fetched. It has a store of its own, so
// that the store can go when that was done, whatever other volumes have depth=1.
var ColdHistory = History{Depth: 1, Cold: true}

// Name returns the store's name: full, depth-10, blob-none, depth-10-blob-none, cold.
func (h History) Name() string {
	if h.Cold {
		return "cold"
	}
	var parts []string
	if h.Depth > 0 {
		parts = append(parts, "depth-"+strconv.Itoa(h.Depth))
	}
	if h.NoBlobs {
		parts = append(parts, "blob-none")
	}
	if len(parts) == 0 {
		return "full"
	}
	return strings.Join(parts, "-")
}

// Files says which files of a commit a tree holds, and how they are filled in. The zero Files is all files of the
// commit, without submodules.
type Files struct {
	Sparse     Sparse
	Submodules Submodules
	// PartialSubmodules is set if a submodule that can't be had leaves its directory empty.
	PartialSubmodules bool
	NoLFS             bool // git-lfs pointers are not replaced by their objects
}

// Sparse is a sorted, comma-separated list of directories: as in git's cone mode, a tree holds all that is below
// them, and the files directly in each of their parent directories. Empty: everything.
type Sparse string

// Dirs returns the directories, nil for everything.
func (s Sparse) Dirs() []string {
	if s == "" {
		return nil
	}
	return strings.Split(string(s), ",")
}

const (
	// maxDepth is below 2^31-1, which means all history to git.
	maxDepth          = 1<<31 - 2
	maxSparse         = 4096
	allowedDepth      = "full, a number of commits from 1"
	allowedSparse     = "directories of the repository separated by commas, such as cmd,docs/api"
	allowedCredential = "1 to 64 letters, digits, dots, dashes and underscores"
)

func parseDepth(text string) (depth int, problem string) {
	if text == "full" {
		return 0, ""
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxDepth {
		return 0, "is not a depth"
	}
	return n, ""
}

func formatDepth(n int) string {
	if n == 0 {
		return "full"
	}
	return strconv.Itoa(n)
}

// parseSparse accepts what git sparse-checkout accepts in cone mode: names of directories, no
// patterns.
func parseSparse(text string) (Sparse, string) {
	if len(text) > maxSparse {
		return "", "is longer than " + strconv.Itoa(maxSparse) + " bytes"
	}
	dirs, problem := parseDirs(text, "repository", func(dir string) string {
		if strings.ContainsAny(dir, `*?[\"!`) || strings.HasPrefix(dir, "#") {
			return "contains a pattern; only directories can be named"
		}
		return ""
	})
	return Sparse(strings.Join(slices.Compact(dirs), ",")), problem
}

// parseDirs reads directories below the top of the named tree, separated by commas, for
// which check finds no problem, and sorts them.
func parseDirs(text, tree string, check func(dir string) (problem string)) (dirs []string, problem string) {
	if text == "" {
		return nil, ""
	}
	if !plain(text) {
		return nil, "contains a control character, or is not valid UTF-8"
	}
	for dir := range strings.SplitSeq(text, ",") {
		dir = strings.TrimSuffix(dir, "/")
		if dir == "" {
			return nil, "names an empty path"
		}
		if problem := check(dir); problem != "" {
			return nil, problem
		}
		if dir == "." || !fs.ValidPath(dir) {
			return nil, "names a path that is not below the top of the " + tree
		}
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return dirs, ""
}

// plain reports whether text is UTF-8 without control characters.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

var credentialName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func parseCredential(text string) (name, problem string) {
	if text != "" && !credentialName.MatchString(text) {
		return "", "is not the name of a credential"
	}
	return text, ""
}
