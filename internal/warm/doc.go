// Package warm carries untracked build state (node_modules, .venv, target) from
// one workspace to the next, as layers.
//
//	clones/<subject>/<repo hash>/warm/<id>/<path>
//
// A head lists, for a key (path, owner, ref, the volume's warm_key), the layers that the
// next workspace uses, topmost first. When the kernel says that nobody uses an ended
// workspace any more, it may move its heads: the directory at the path in its upper is
// renamed to be the topmost layer. Whiteouts and opaque directories keep their meaning.
// Workspaces of commits, which have no ref, share one head.
//
// A caller may rely on this: a workspace moves a head only if the head still is as the
// workspace got it, so if two workspaces got the same, the first to end wins. A layer never
// changes, and stays while a head or a workspace needs it. What a container wrote is read by
// descriptor, without following symbolic links. A caller may not rely on a layer to exist,
// because all of this is a cache.
//
// A layer is valid for this boot at once, and for the next one after a sync in the
// background. Records and directories are repaired when their clone is first used.
package warm
