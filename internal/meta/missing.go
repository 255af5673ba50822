package meta

// MissingSubmodule is a submodule that could not be had when a tree was built, or a pattern of
// paths that matches none.
type MissingSubmodule struct {
	Path string `json:"path"` // below the top of the tree; or the pattern
	Why  string `json:"why"`
	// Commit is that of the submodule; empty for a pattern.
	Commit string `json:"commit,omitempty"`
	// URL is that of .gitmodules, and Base that of the repository which has the file, to try
	// again. They are empty if that can't help.
	URL  string `json:"url,omitempty"`
	Base string `json:"base,omitempty"`
	// Late is set if it was fetched, and could not be checked out.
	Late bool `json:"late,omitempty"`
}
