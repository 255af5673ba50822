// Package warm carries untracked build state (node_modules, .venv, target) from
// one workspace to the next, as layers.
//
//	clones/<subject>/<repo hash>/warm/<id>/<path>
//
// A head says for a key (path, owner, ref, the volume's warm_key) on which layers
// the next workspace stands, topmost first. A workspace that has ended may move
// its heads, once the kernel says that nobody uses it: what its upper has at the
// path is renamed to be the topmost layer. Whiteouts and opaque directories in it
// mean there what they meant before. Workspaces of commits, which have no ref,
// have one head together.
//
// A caller may rely on this: a head moves only on from where the workspace found
// it, so that of two that started from it one wins; a layer never changes and
// stays while a head or a workspace needs it; what a container has written is
// looked at by descriptor, and no symbolic link in it is followed. What it may
// not rely on is that a layer is there: all of this is a cache.
//
// A layer is good for this boot at once, and for the next when a sync in the
// background says so. Records and directories are repaired, clone by clone, the
// first time that a clone is used.
package warm
