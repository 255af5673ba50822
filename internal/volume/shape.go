package volume

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// History says how much of a repository's history a store holds. Each has its own store, because a shallow fetch
// into a full store truncates it. The zero History is all of it.
type History struct {
	Depth   int  // commits from the tips of branches and tags; 0: all
	NoBlobs bool // file contents are fetched when a checkout needs them (filter blob:none)
}

const (
	filterNone  = "none"
	filterBlobs = "blob:none"
)

// Name returns the store's name: full, depth-10, blob-none, depth-10-blob-none.
func (h History) Name() string {
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
	NoLFS      bool // git-lfs pointers are not replaced by their objects
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

// Submodules says whether submodules are checked out.
type Submodules int

const (
	SubmodulesNone Submodules = iota
	SubmodulesTop             // those of the repository itself
	SubmodulesRecursive
)

var submodulesWords = []string{"false", "true", "recursive"}

// String returns the option's word.
func (s Submodules) String() string { return submodulesWords[s] }

func parseSubmodules(text string) (Submodules, error) {
	word, err := parseWord(optSubmodules, text, submodulesWords...)
	return Submodules(max(0, slices.Index(submodulesWords, word))), err
}

const (
	// maxDepth is below 2^31-1, which means all history to git.
	maxDepth      = 1<<31 - 2
	maxSparse     = 4096
	allowedDepth  = "full, a number of commits from 1"
	allowedSparse = "directories of the repository separated by commas, such as cmd,docs/api"
	allowedStale  = "a duration such as 24h; 0s for none"
)

func parseDepth(text string) (int, error) {
	if text == "full" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxDepth {
		return 0, newOptionError(optDepth, text, "is not a depth", allowedDepth)
	}
	return n, nil
}

func formatDepth(n int) string {
	if n == 0 {
		return "full"
	}
	return strconv.Itoa(n)
}

func parseStale(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, newOptionError(optStaleIfError, text, "is not a duration", allowedStale)
	}
	if d < 0 {
		return 0, newOptionError(optStaleIfError, text, "is negative", allowedStale)
	}
	return d, nil
}

// parseSparse accepts what git sparse-checkout accepts in cone mode: names of directories, no
// patterns.
func parseSparse(text string) (Sparse, error) {
	if text == "" {
		return "", nil
	}
	fail := func(problem string) (Sparse, error) {
		return "", newOptionError(optSparse, text, problem, allowedSparse)
	}
	if len(text) > maxSparse {
		return fail("is longer than " + strconv.Itoa(maxSparse) + " bytes")
	}
	if !plain(text) {
		return fail("contains a control character, or is not valid UTF-8")
	}
	var dirs []string
	for _, dir := range strings.Split(text, ",") {
		dir = strings.TrimSuffix(dir, "/")
		switch {
		case dir == "":
			return fail("names an empty directory")
		case strings.ContainsAny(dir, `*?[\"!`) || strings.HasPrefix(dir, "#"):
			return fail("contains a pattern; only directories can be named")
		case path.IsAbs(dir) || path.Clean(dir) != dir || dir == "." || dir == ".." || strings.HasPrefix(dir, "../"):
			return fail("names a directory that is not below the top of the repository")
		}
		dirs = append(dirs, dir)
	}
	slices.Sort(dirs)
	return Sparse(strings.Join(slices.Compact(dirs), ",")), nil
}

var credentialName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func parseCredential(text string) (string, error) {
	if text != "" && !credentialName.MatchString(text) {
		// The user may have given the secret itself.
		return "", newOptionError(optCredential, "", "is not the name of a credential", "1 to 64 letters, digits, dots, dashes and underscores")
	}
	return text, nil
}
