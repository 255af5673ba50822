// Package cache says what is published of the dependency caches of workspaces, and makes layers of it.
//
// A workspace has its cache in its upper, over the layers that others have published. Collect puts what is new in it into
// a layer, and Union makes one layer of several. Nothing in an upper is trusted, executed or followed. A layer has only
// directories, files and links, with owners, modes and times that are set here, and no whiteouts or attributes. What a
// layer has as a file, a directory or a link, no later one has as something else. No file of a layer has a name in an
// upper.
//
// # What is published
//
// A union of files, the later one winning, would be wrong: it mixes two versions of an unpacked tree, and makes half a
// file trusted by all that come later. So there is a table with the files of each tool: which are never published
// (tokens, settings, locks, what a build installed), which are named by their content or version and stay as the first
// one, which are published only as a whole directory that is complete, and which are indexes, of which the later one
// is taken. Nobody says how a container ended, so the table takes only what its tool makes whole: by a rename, or with
// a mark of completeness, or if the file itself or another one shows that it was written to its end. Of a tool that is
// not in the table, all that is new is published, or nothing: nothing while a program may write there. Names are never removed
// by a publication.
//
// Nothing in the work tree leads to the cache, because programs that pack the work tree, such as hatchling, rsync -aL and
// dpkg-source, do not ask git what to ignore: they would take the cache, with what other containers left there, into what
// they make. With cache_link=true a workspace has the link .hdcache, unless the repository tracks a file of that name, and
// its git layer has a line for it in .git/info/exclude. Variables name .git/hdcache and not the link, which git clean -fdx
// removes; the file env sets them so even if it is sourced through the link.
package cache
