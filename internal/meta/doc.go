// Package meta keeps records of all that exists, in a BoltDB file.
//
// The file is the truth, the directories are a cache of it. A directory is on disk before
// its record is committed, and its record is deleted before the directory is. So after a
// crash a directory without a record is garbage, and a record without its directory is
// void; the package that owns the directory repairs both in its sweep.
//
// Schema, version 3 (values are JSON):
//
//	meta
//	  version         "3"
//	volumes
//	  <volume name>   Volume
//	clones
//	  <clone key>     Clone        a store that was fetched at least once
//	trees
//	  <clone key>/<tree ID>       Layer
//	gitlayers
//	  <clone key>/<layer ID>      Layer
//	workspaces
//	  <workspace ID>  Workspace    with its leases; a checkpoint is one in that state
//	warmlayers
//	  <clone key>/<layer ID>      Layer
//	warmheads
//	  <clone key>/<head key>      WarmHead
//	subjects
//	  <subject>       Subject      limits of its own; a lost database loses them
//	publications
//	  <target path>   Publication  of a volume, to a pod; a lost database loses them
//	events
//	  <number>        Event        of the janitor, the last ones; a lost database loses them
//
// Open adds buckets that are missing, and refuses any other version.
//
// A clone key is "<subject directory>/<repo hash>".
//
// # Commits
//
// Commits that come together share one transaction: a change that comes while a commit is under way waits in a list,
// and the first change to get the turn commits all of the list. A single change waits for nobody. If a shared commit
// fails, each change is committed alone.
//
// # A full disk
//
// BoltDB writes changes to other pages than those they replace. So the file is larger than its content by a 64th of
// the disk (16 MiB at most), with blocks from fallocate, and a start that has nothing to change writes nothing.
package meta
