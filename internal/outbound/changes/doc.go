// Package changes says what a workspace changed against the commit that it began with: which
// files, a patch, and an archive of them.
//
// A change is everything that a container did to the files, committed or not, as far as git
// would see it: the bytes of a file, whether it can be executed, the target of a link. Files
// are compared with those of the checkout, and not with the objects of the commit, so
// conversions of line ends and LFS objects are no changes. .git, the link to the cache and
// the warm paths are left out, and so is everything that is no file and no link.
//
// Two workspaces are compared in the same way: one of them has the place of the checkout. Candidates come from all layers
// that only one of them has, of the uppers as of the trees (Unshared), because files can differ nowhere else. A file is
// ignored if, on each side that has it, it is not in the checkout and a .gitignore names it. TestBetween compares the
// result with both work trees.
//
// Candidates come from the upper. The cost is proportional to what a container wrote, removed or
// moved, and not to the repository.
//
// A container may change its files meanwhile, and has written their names and contents: paths
// are opened by descriptor, without following links or entering mounts, and every count, size
// and time is limited. git runs only in a directory of our own, on what was copied there.
//
// Only a directory that hides what is below it (opaque), or shows another one (a redirect), and a deletion make the
// plugin walk the views there. Each candidate is compared in both views. TestDifferential compares the result with
// git's.
//
// git decides which added files are ignored, in an empty work tree with copies of the .gitignore files. And it makes
// the patch: the contents before and after are streamed into git fast-import, in an empty repository, and git
// diff-tree compares the two trees. Neither has attributes, configuration or an index of the container. A name that
// git refuses would spoil the whole patch, so such files are left out, and named.
//
// A patch has files as git stores them, because git apply converts those of its work tree before it compares them, and
// takes all of a patch or nothing. git says which attributes a file has on each side, in a work tree with copies of the
// .gitattributes files; the conversions are code of this package, and no filter runs. TestClean and TestEncodings
// compare them with git's. What git's iconv alone can convert is left out, and so is a content of git-lfs that the
// repository does not have: where git-lfs is installed, git apply would end in the middle of its work, because it can't
// get that.
//
// An answer keeps 512 KiB of paths in memory, and more, up to 200,000 paths, in a file without a name. A patch is
// complete in a file before its first byte is sent, so no reader decides how long git has a processor. One inspection
// of a subject is prepared at a time, and its slots are overdue from the beginning (package work): no mount waits for
// them, of the same subject either.
package changes
