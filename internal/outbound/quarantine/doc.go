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
//	  needs        the commits that they build on, as lines of a bundle's header
//
// Both repositories are new, have a configuration of ours, and have base as their only
// alternate. The git layer is immutable, and was made by the plugin.
//
// Guarantees: what leaves is what git found to be complete and well-formed, but for known faults
// of old history (tolerated), whatever the container writes meanwhile. Bytes, objects, refs, time
// and memory are limited. The directory is removed at the end in every case; Open removes what a
// killed process left.
//
// A container may change files while they are read. An object that is read torn does not have
// its hash, which is an error: run it again.
//
// # How commits leave
//
//   - Refs: HEAD, files below refs/heads and packed-refs, read by descriptor (openat2: beneath, no links, no crossing
//     of mounts; a FIFO does not block). Names are those that git allows, without a leading dash. Refs as a reftable
//     are refused.
//   - Import: each pack that the git layer does not have goes through git index-pack --stdin, which computes the name
//     of every object; loose objects are inflated in Go, with limits, compared with their hash, and written as one
//     pack. The loose objects are listed before the packs, and the refs before both, because a git gc at the same time
//     moves objects only the other way.
//   - Choose and check: pack-objects packs what the branch reaches and no ref of the git layer does, which fails if an
//     object is missing; index-pack --strict adds that to push.git. So what a container merely has is not judged.
//     Findings of git fsck that public histories have are warnings, because the remote decides whether it takes them;
//     those that attack who fetches are refusals. (Fetches are not checked like that, because of these histories.)
//   - Send: git push sets one branch from one commit ID. It negotiates (push.negotiate), because a remote that has
//     moved on lists only commits that the workspace does not have. A bundle is a header of ours and the pack.
//
// The packs of the git layer are hard links, and not an alternate in the layer: then the workspace is held only until
// the pack is complete, and may end while a slow remote is talked to.
//
// Histories: a volume with a depth has the layer's own shallow file in both repositories. With filter=blob:none the
// layer's packs have the mark of a promisor: files that commits did not change may be missing. A commit that brings
// back a file which was never fetched is refused as incomplete.
//
// # Counts
//
// A status counts the commits that the remote lacks by now (Follow). Then the packs and the refs of the clone's store, which
// has what the remote said last, stand beside those of the layer, as hard links in a directory of their own (Upstream). The
// container's refs/remotes are never read.
//
// # Merges
//
// Conflicts merges the commits of two workspaces, to say whether they conflict (git merge-tree --write-tree). Its
// repository has both push.git as alternates. What it writes is removed, and may have PUSH_MAX_SIZE: results of small
// differences can be large, so the size is watched while git runs. Two workspaces take up to five times PUSH_MAX_SIZE.
//
// # Large files
//
// LFS objects are neither pushed nor in a bundle. A pointer whose object is not among those that the clone has fetched
// is refused, unless the request says without_lfs: whoever fetched the commits could not check them out. Contents in
// place of pointers are refused too (Raw): for each branch, if a .gitattributes of its commit mentions git-lfs, git
// lists the files that its new commits change, an index of the attribute files alone says which of those are git-lfs's
// (check-attr --cached), and their blobs are read, unless the git layer has them. The plugin makes no pointers of them, because that would be other
// commits than the container's.
//
// # Servers without chunked requests
//
// git sends more than 1 MiB over HTTP in chunks, and some servers answer 411 or 400. The command is then run once more
// with http.postBuffer at HTTP_POST_BUFFER (git.RunRemote): git reads what it sends into memory, and sends it with a
// length. The size of a pack is not known before git has made it for this remote, so it is not compared with the
// setting beforehand.
package quarantine
