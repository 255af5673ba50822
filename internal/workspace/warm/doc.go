// Package warm carries untracked build state (node_modules, .venv, target) from
// one workspace to the next, as layers.
//
//	clones/<subject>/<repo hash>/warm/<id>/files/<path>
//	clones/<subject>/<repo hash>/warm/<id>/base/         from which files that was built
//
// A head lists, for a key (path, owner, ref, the volume's warm_key, the contents of its warm_files), the layers that the
// next workspace uses, topmost first. When the kernel says that nobody uses an ended
// workspace any more, it may move its heads: the directory at the path in its upper is
// renamed to be the topmost layer. Whiteouts and opaque directories keep their meaning. All heads move in one change of
// the database, so that a workspace never begins with the old state at one path and the new one at another.
// Workspaces of commits, which have no ref, share one head.
//
// The dependency cache of a uid and gid is a head too, at cache.Mount, with other rules: each workspace that ends adds what
// is new and may be published to the head as it is then, and its layers depend on nothing below them. See cache.go.
//
// A workspace whose files are not those from which its heads were built also gets a layer of
// times, in which the files that differ are newer than the heads: see times.go.
//
// A caller may rely on this: a workspace moves a head only if the head still is as the
// workspace got it, so if two workspaces got the same, the first to end wins. A layer never
// changes, and stays while a head or a workspace needs it. What a container wrote is read by
// descriptor, without following symbolic links. A caller may not rely on a layer to exist,
// because all of this is a cache.
//
// A layer is valid for this boot at once, and for the next one after a sync in the
// background. Records and directories are repaired when their clone is first used.
//
// # Promotion
//
// A layer must be complete in itself, except for what the layers below it in its chain have. A file whose mode, owner,
// times or name alone were changed has its data in another layer (metacopy), and gets this data before it is promoted,
// through a view of the workspace's layers. That costs at most what those layers have, and only for files that the
// workspace changed: without metacopy its container would have copied the same. But without metacopy the limit of the
// workspace would have counted it, and a chown -R takes no time: so a promotion copies at most a quarter of what is free,
// the promotions of a clone copy one after the other, and one whose head was moved meanwhile does not.
//
// A directory is not carried over if it has a redirect (npm's own are removed by then), a hard link that leads out of it,
// because the layer could be changed through the other name, or a device node. Inspecting 20,000 files takes 80 ms. It
// yields a processor, but only little, because the next workspace may wait for it, and rests only once it copies. A
// workspace that wrote nothing at its warm paths, and made no mark, costs one lstat per path.
//
// Hard links of a layer split when a workspace writes to one of their names. With index=on they would stay one file
// there, but what is promoted has no index, so they would still split; and the question whether the upper is in use,
// asked with other layers, would get ESTALE.
//
// The tree takes precedence: a warm path that the tree has, or one of whose parents is no directory there, is left
// out. What is not promoted stays in the upper. It is no change by itself, but a workspace that has others becomes a
// checkpoint with it: nobody else has it, and a job that failed, with publish=marked, is looked at most. Kept workspaces
// do not promote. If the database is lost, all heads are lost.
//
// The paths are verified first, without a lock. One with hard links into the cache can be verified only when that is
// published, and all others wait for it: the old state is whole meanwhile. Between the first rename and the commit a crash
// loses what was renamed, so the upper has a mark (movedAttr) then, and the next try promotes nothing of the rest.
//
// If the commit fails, all is renamed back, and the mark goes. What can't be renamed back stays in its temporary
// directory until the sweep. A workspace with a limit has a project, and its upper takes back only what is still of that,
// so a layer leaves the project after the commit. The limit was lifted before the promotion. A crash in between only
// keeps the project's ID taken until the layer is removed, as a symbolic link does anyway.
//
// When a layer is promoted, what belongs to root in it is given to the volume's user, in a second walk, only once the
// first has found that the directory can be a layer: so no file with a name elsewhere changes its owner, and no mount
// shows the change.
//
// # Heads
//
// The contents of warm_files are read from the tree's layers, once for each tree: neither git nor an index, whose
// size is that of the repository, is asked. So a file that is not checked out counts as missing, and one that is kept by
// git-lfs counts by what it has. Their sum is the end of a key, so the heads that differ in nothing else are found
// without a record of their own.
//
// A ref without a head takes the default branch's chain, and gets its own head with the first change. A head that was
// emptied is a record without layers; without the record, the next workspace would take the default branch's chain
// again. A Mount waits up to 2 s for the end of a workspace that may move one of its heads, so that the second of two
// successive docker run finds what the first left.
//
// With a mark (publish=marked) a container says that all its warm paths are good for its commit. So its end also moves the
// heads of those that it did not change: they keep their layers. A head has the commit, the time and the label of the
// workspace that moved it last; a layer has those of its own workspace, because bases are compared with what was written.
//
// At 8 layers a chain is flattened in the background: what the layers show is copied, through an overlay that is
// mounted nowhere. The new layer remembers the chain that it is made of, so a workspace that started from that chain
// may still move the head. At 16 layers nothing is promoted until the chain is flattened. Holes in files stay holes.
// The copy may have at most twice the measured size, and 64 MiB more, and does not begin unless a 64th of the disk
// would stay free. After a failure, the next try is an hour later at the earliest.
//
// # The commit of a head
//
// A tree's files keep the times of their checkout. A head that was built later from another commit looks newer than
// all of them, and make or Cargo would take its products for those of this commit. So a warm layer remembers its base:
// hard links to the indexes with which its workspace began, whose size counts where they were made, and the paths at which the ended upper has, or hides,
// files of the commit (base.go). So neither the commit needs to be in the store, nor is it asked where the workspace's
// HEAD was. A Mount compares the index of its tree with those of the topmost layers of its heads (checkout.Stamps, in
// a process of its own), and each file keeps or gets a time as if one clone had been switched from commit to commit:
//
//	not the same in a base    a new time, unless the tree's is in a later second than the end of that build
//	the same in a base        that of the base, if the tree's is older: a change that was not built yet must
//	                          not look older than a product
//
// The new time is in a second after that of the newest build, because Python compares whole seconds, and a Mount may
// wait for that second. The second rule carries times from head to head: without it, a file that changed, was not
// built by the next workspace, and then kept its content for a third, would have the tree's old time again. A
// .gitattributes that differs makes the files below it differ. If too many files differ, that is remembered until the next
// start, so that later Mounts don't compare again.
//
// The end of a build is not before the newest time of its files: if the clock was ahead, and was set back before the
// workspace ended, a source that changes next must not look older than a product. A layer that is of a time to come fits
// no workspace until then.
//
// The files that need another time become a layer of times: stubs with metadata and without data (metacopy), and the
// tree's index with their stat data. It lies below the warm layers and above the tree. Its ID is a hash of the tree's
// build and of the heads' topmost layers, so it is made once, and it is usually empty after a push, because then the
// tree is newer than the head. With 100 changed files the Mounts after the first took 1.01 times as long as those of
// an equal commit (medians of 40, on a busy machine).
//
// Not chosen: to record the commit and let git compare the two (it may be gone, the workspace may have had other
// files, and a file that was never built would be forgotten); to write the files into each upper (they would be
// changes of the workspace); times of the commits (git and make need times before now, and after the build); to throw
// the head away (a push of one file would build everything again).
//
// # The cache
//
// One directory that all containers write to, and that is the home of their tools, hurts them: a lock, a token, a half
// unpacked tree, a chown or an rm of one is that of all. So each workspace has its own view. When nobody uses an ended
// workspace any more, what is new is moved from the upper into a new layer on top of the head, as the head is then,
// and the rest goes to the trash (package cache says what is published). Warm paths are promoted first, unless one has hard
// links into the cache. A cache from which files are being moved has the mark too: after a crash the rest of it is not
// published. A kept workspace
// publishes at its last release and on request, while containers may write: its files are copied then, and one that
// changes meanwhile is left out. A mount does not wait for publications: where many jobs end all the time, it would
// always wait.
//
// As the layers depend on nothing below them, any may be evicted, merging them is a union of hard links (cache.Union),
// and a path can be dropped, by a union without it, unless it is a part of a unit. From eight layers on, the topmost ones
// are merged in the background, as long as the next is not more than twice as large as those above it, so a file is
// linked again a few times in its life. At sixteen, a publication merges first.
//
// Layers that a workspace holds stay when they are merged, or a path of them is dropped, and the new one has links to
// their files. Each size is that of a whole layer, and never changes; the new one lists the layers that it was made of,
// and counts with what it has besides those that are still known (layer.Set.Sizes). So each file counts once, whichever
// goes first, and the janitor does not evict the new one for room that the others go on to take.
package warm
