package volume

import (
	"strconv"
	"strings"
)

// Warm is a sorted, comma-separated list of paths, none inside of another: directories with untracked build state that
// is carried over from one workspace to the next, or files that decide which state that is. Empty: none.
type Warm string

// Paths returns the paths, nil for none.
func (w Warm) Paths() []string {
	if w == "" {
		return nil
	}
	return strings.Split(string(w), ",")
}

const (
	// maxWarm bounds the layers of a workspace: each path adds up to 8, and the kernel allows 500.
	maxWarm = 16
	// maxWarmPath and maxWarmKey keep a record small.
	maxWarmPath      = 255
	maxWarmKey       = 256
	allowedWarm      = "up to 16 directories of the workspace separated by commas, such as node_modules,web/.venv"
	allowedWarmFiles = "up to 16 files of the repository separated by commas, such as package-lock.json,.nvmrc"
	allowedWarmKey   = "up to 256 bytes of UTF-8 text without control characters"
)

// parseWarm accepts paths below the top of the workspace, outside of .git and the cache.
func parseWarm(text string) (Warm, string) {
	dirs, problem := parseDirs(text, "workspace", func(dir string) string {
		if len(dir) > maxWarmPath {
			return "names a path of more than " + strconv.Itoa(maxWarmPath) + " bytes"
		}
		for name := range strings.SplitSeq(dir, "/") {
			if strings.EqualFold(name, ".git") || name == ".hdcache" {
				return "names " + name + ", which is not part of the work tree"
			}
		}
		return ""
	})
	if problem != "" {
		return "", problem
	}
	if len(dirs) > maxWarm {
		return "", "names more than " + strconv.Itoa(maxWarm) + " paths"
	}
	for i, a := range dirs {
		for _, b := range dirs[i+1:] {
			switch {
			case a == b:
				return "", "names a path twice"
			case strings.HasPrefix(b, a+"/"):
				return "", "names a path and one inside of it"
			}
		}
	}
	return Warm(strings.Join(dirs, ",")), ""
}

func parseWarmKey(text string) (key, problem string) {
	switch {
	case len(text) > maxWarmKey:
		return "", "is longer than " + strconv.Itoa(maxWarmKey) + " bytes"
	case !plain(text):
		return "", "contains a control character, or is not valid UTF-8"
	}
	return text, ""
}
