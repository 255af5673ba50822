// Package quarantine takes commits out of a repository that a container could write to, and
// sends them to a remote or into a bundle.
//
// No program ever runs on the container's repository, and none reads its configuration, hooks,
// attributes, alternates, grafts, shallow file or replace refs. This process reads refs and
// objects by descriptor, without following a link or entering a mount, and git gets only the
// bytes of objects, on its standard input:
//
//	<dir>/<random>/
//	  base/        the git layer's packs, as hard links: the workspace may end meanwhile
//	  import.git/  what the container's repository has and the git layer has not: git
//	               computes the name of each object from its content; removed once new.pack is
//	               complete, so that there are at most two copies
//	  push.git/    of that, what the chosen branches need and the git layer's refs do not
//	               reach, checked as git fsck does; git push runs here
//	  new.pack     the same objects, as they come out of import.git
//
// Both repositories are new, have a configuration of ours, and have base as their only
// alternate. The git layer is immutable, and was made by the plugin.
//
// Guarantees: what leaves is what git found to be complete and well-formed, whatever the
// container writes meanwhile. Bytes, objects, refs, time and memory are limited. The directory
// is removed at the end in every case; Open removes what a killed process left.
//
// A container may change files while they are read. An object that is read torn does not have
// its hash, which is an error: run it again.
package quarantine
