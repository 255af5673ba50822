package meta

import "time"

// CachePart says what a layer of a dependency cache has.
type CachePart string

const (
	// CacheBase is the lowest layer, with the directories of the tools.
	CacheBase CachePart = "base"
	// CacheFiles is a layer with files that workspaces published.
	CacheFiles CachePart = "files"
)

// Base is what a workspace with warm paths shows of its commit.
type Base struct {
	Tree  string `json:"tree,omitempty"`  // one build of a tree
	Times string `json:"times,omitempty"` // the ID of a layer of times; empty for the times of the tree
}

// Built says which workspace left a state of a warm path.
type Built struct {
	Commit  string    `json:"commit,omitempty"`  // of the workspace
	BuiltAt time.Time `json:"built_at,omitzero"` // a time after its last write
	Label   string    `json:"label,omitempty"`   // untrusted: its container wrote it. See upper.ReadMark
}

// WarmPath is an untracked directory of a workspace that is carried over to the
// next one.
type WarmPath struct {
	Path string `json:"path"`
	// Head is the key of the WarmHead that the workspace may move.
	Head string `json:"head"`
	// From is the key of the head that the chain was taken from, if it is another one.
	From string `json:"from,omitempty"`
	// Chain has the IDs of the warm layers below it, topmost first; empty if there were
	// none. A workspace may move the head only if its chain is still this one.
	Chain []string `json:"chain,omitempty"`
	// Built is that of the head as the workspace found it; zero if it found none.
	Built
	// LeftOut says why the path is not warm in this workspace: it has no warm layers, and
	// is not published, unless it replaces others.
	LeftOut string `json:"left_out,omitempty"`
	// Replaces is the chain of a head that does not fit the workspace's commit. The workspace may replace it.
	Replaces []string `json:"replaces,omitempty"`
	// Base is that of the workspace, the same for all its paths.
	Base Base `json:"base,omitzero"`
}

// WarmHead says which warm layers the next workspace of its key gets.
type WarmHead struct {
	Clone string `json:"clone"`
	Key   string `json:"key"` // a hash of the five fields below, and, after a dash, one of the files of warm_files
	Path  string `json:"path"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Ref   string `json:"ref"`
	Text  string `json:"text,omitempty"` // the volume's warm_key
	// Chain has the IDs of its layers, topmost first. Empty: a workspace removed the
	// directory, and that of the default branch does not replace it.
	Chain []string `json:"chain"`
	// Built is that of the workspace that moved it last. The layers were built before, if that one did not change them.
	// It is zero for a cache.
	Built
	// Used is when a workspace last used it, to about a minute.
	Used time.Time `json:"used,omitzero"`
}

func (h WarmHead) key() string { return h.Clone + "/" + h.Key }
