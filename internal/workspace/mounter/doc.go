// Package mounter makes the directories of workspaces, and mounts and unmounts their overlays.
//
//	clones/<subject>/<repo hash>/workspaces/<id>/
//	  manifest.json   the record, for a database that was lost
//	  upper/          what the container writes
//	  merged/         of a checkpoint that stood on many others: what they and it had written
//	  work/           the kernel's work directory
//	  probe/          for the question to the kernel whether upper is in use
//	  helper/         with auth=container: what is bound at .git/helmdeck
//	mnt/              a tmpfs
//	  <id>/           where a workspace is mounted
//
// It knows no leases and no phases: the caller says what to mount, and when. The caller also
// makes sure that two calls for one workspace follow one another.
//
// All mounts have metacopy, where the kernel has it, also those with warm paths, although a promoted file must not
// need data from layers below: without it a chown would copy files that nobody promotes, git would copy a pack to
// update its time, and the packs of a git layer could not be linked (package tree).
//
// # Chains of checkpoints
//
// A workspace on a checkpoint is mounted on the uppers of all that this stands on. The kernel looks each name up in all of
// them, so a checkpoint that stands on many others is flattened: all that they and it show together goes into the directory
// merged, beside its upper, by hard links where that is possible (replica.Merge). Whoever begins with the checkpoint
// meanwhile stands on the chain as it is. When the directory is on disk, one transaction makes it the checkpoint's upper: the
// record has Merged then, and no From.
//
// A second link is a change that an overlay on the file's layer shows: a file that was copied up there has the inode
// number of the one below, but only as long as that has one link. So nothing is linked on whose layer a workspace
// stands that is mounted, or going to be, and files are copied instead. The question comes before and after each link:
// a workspace is known before it is mounted, so each mount finds a file with one link or with two from its beginning.
// If a second one goes, because others were removed, the number can change when the kernel has forgotten the file,
// which it does not while that is open. Because copies cost, a chain on which something is mounted is merged later, and
// then its last checkpoint alone.
//
// Each record has all that it stands on. So what stands on the chain goes on doing so, mounted or not, and keeps what is
// in it; it stands on the checkpoint's former upper, and what begins later on its merged one (OnMerged; only the last one
// of From can be merged). The former upper is removed when no record, and nobody who looks at files, needs it any
// more. After a crash, what no record names is garbage: the next attempt removes a directory merged that is not
// complete, and the start a former upper.
//
// The size of a merged checkpoint is what it had alone, as before, with what was copied. What it shares with others
// counts as theirs until they are removed. Then it is added to that of one that has merged them, the oldest first, up
// to what that takes in all; the rest is free.
//
// # Limits
//
// The upper of a workspace with a limit, and its work directory, are a project of the filesystem (package project) before
// anything is made in them. The kernel refuses what a container writes beyond the limit, also to the workspace's view
// of the cache, and nobody else notices: no write of the plugin can fail for it. What the plugin writes beside the
// upper does not count, and what it writes into the upper it writes while there is no limit, before the answer to the
// Mount.
//
// The record has the project's ID, which no other workspace has. A checkpoint keeps both. What is promoted or published
// leaves the project when it is a layer. What goes to the trash keeps it, without a limit, and so do symbolic links
// that were promoted: so an ID is taken again only when the kernel counts nothing for it. The start removes limits of
// IDs that no workspace has, and sets those of mounted workspaces again. A workspace whose upper lost its project, as a
// copy has, is moved into it when it is mounted. A checkpoint that was made without a limit gets none.
//
// # Writing
//
// New files are not written to the disk beside the checkout. The end of a first container of 100,000 files takes a
// second, because the engine unmounts the container's root directory, an overlay too, and the kernel then syncs the
// filesystem with all new files of the tree. With an earlier start of that sync nobody gains on two processors:
// writing takes as much processor time as disk time (ext4 allocates the blocks one file at a time), and the checkout
// uses both (together 2.4 s in place of 2.5 s, but the Mount answers 0.8 s later).
//
// # Not looked up in advance
//
// The first git status in a workspace of 100,000 files takes 0.44 s, a second one 0.26 s, one in a plain clone in
// memory 0.2 s. It reads no file: it calls lstat for each file of the index, and overlayfs makes an entry and an inode
// for each (0.34 s of processor time). No option of the mount changes that (metacopy=off and redirect_dir=nofollow:
// 0.43 to 0.47 s; index=on: 0.54 s). To look up all files after each Mount would cost as much for a container that
// never asks, take some 90 MB of the kernel's memory for each workspace, and add 0.25 s to its end.
package mounter
