// Package mounter makes the directories of workspaces, and mounts and unmounts their overlays.
//
//	clones/<subject>/<repo hash>/workspaces/<id>/
//	  manifest.json   the record, for a database that was lost
//	  upper/          what the container writes
//	  work/           the kernel's work directory
//	  probe/          for the question to the kernel whether upper is in use
//	  helper/         with auth=container: what is bound at .git/helmdeck
//	clones/<subject>/<repo hash>/cache/<uid>/
//	                  the dependency caches, bound at .git/hdcache
//	mnt/              a tmpfs
//	  <id>/           where a workspace is mounted
//
// It knows no leases and no phases: the caller says what to mount, and when. The caller also
// makes sure that two calls for one workspace follow one another.
package mounter
