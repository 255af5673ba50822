// Package workspace makes the writable overlays that containers get, counts the
// leases that hold them, and takes them away.
//
//	clones/<subject>/<repo hash>/workspaces/<id>/
//	  manifest.json   the record, for a database that was lost
//	  upper/          what the container writes
//	  work/           the kernel's
//	  tree/           the mount point
//	  probe/          scratch for asking the kernel whether upper is in use
//	clones/<subject>/<repo hash>/cache/<uid>/
//	                  the dependency caches, bound at .git/hdcache
//
// A caller may rely on this: Open and Release cost the same whatever the size of
// the repository and however dirty the workspace; an upper is touched again only
// when the kernel says that no mount of it is left in any namespace; nothing is
// executed on, and no symlink followed in, what a container could have written.
package workspace
