package volume

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Warm is a sorted, comma-separated list of directories, none inside of another: untracked build state that is
// carried over from one workspace to the next. Empty: none.
type Warm string

// Paths returns the directories, nil for none.
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
	maxWarmPath    = 255
	maxWarmKey     = 256
	allowedWarm    = "up to 16 directories of the workspace separated by commas, such as node_modules,web/.venv"
	allowedWarmKey = "up to 256 bytes of UTF-8 text without control characters"
)

// parseWarm accepts directories below the top of the workspace, outside of .git and the cache.
func parseWarm(text string) (Warm, error) {
	if text == "" {
		return "", nil
	}
	fail := func(problem string) (Warm, error) { return "", newOptionError(optWarm, text, problem, allowedWarm) }
	if !plain(text) {
		return fail("contains a control character, or is not valid UTF-8")
	}
	var dirs []string
	for dir := range strings.SplitSeq(text, ",") {
		dir = strings.TrimSuffix(dir, "/")
		switch {
		case dir == "":
			return fail("names an empty directory")
		case len(dir) > maxWarmPath:
			return fail("names a directory of more than " + strconv.Itoa(maxWarmPath) + " bytes")
		case path.IsAbs(dir) || path.Clean(dir) != dir || dir == "." || dir == ".." || strings.HasPrefix(dir, "../"):
			return fail("names a directory that is not below the top of the workspace")
		}
		for name := range strings.SplitSeq(dir, "/") {
			if strings.EqualFold(name, ".git") || name == ".hdcache" {
				return fail("names " + name + ", which is not build state")
			}
		}
		dirs = append(dirs, dir)
	}
	if len(dirs) > maxWarm {
		return fail("names more than " + strconv.Itoa(maxWarm) + " directories")
	}
	for i, a := range dirs {
		for _, b := range dirs[i+1:] {
			switch {
			case a == b:
				return fail("names a directory twice")
			case strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/"):
				return fail("names a directory and one inside of it")
			}
		}
	}
	slices.Sort(dirs)
	return Warm(strings.Join(dirs, ",")), nil
}

func parseWarmKey(text string) (string, error) {
	switch {
	case len(text) > maxWarmKey:
		return "", newOptionError(optWarmKey, text, "is longer than "+strconv.Itoa(maxWarmKey)+" bytes", allowedWarmKey)
	case !plain(text):
		return "", newOptionError(optWarmKey, text, "contains a control character, or is not valid UTF-8", allowedWarmKey)
	}
	return text, nil
}

// plain reports whether text is UTF-8 without control characters.
func plain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
