// Package lfs reads the pointers of git-lfs, replaces them by their content from a storage, which package download fills,
// and has what git in a container needs for such files.
//
// # Pointers
//
// git gives a filter the content of a file as the work tree would have it, after line ends and encodings, and a
// checkout without the filter writes exactly that. So a pointer is read from the file, by git-lfs's own rules; a test
// compares 400 random spellings with git-lfs.
//
// # The filter of a workspace
//
// git runs a filter as soon as the stat data of a file has changed (chown -R, touch, cp -a). Without one, each LFS
// file would then be modified, and the next git add -A would commit contents in place of pointers. So .git/config
// names the filter "lfs", a script of ours (Filter), which git in a container runs, and the plugin never does.
//
//   - It executes git-lfs if that is there. Otherwise it does the same with sh and programs of coreutils or BusyBox:
//     clean stores the content in .git/lfs/objects and makes a pointer, smudge takes the object from there, or leaves
//     the pointer. A test adds and checks out 100 odd files with three shells, and compares blobs and files with
//     git-lfs's.
//   - Where somebody has run git lfs install, git uses that process and not our filter, so nothing is slower there. We
//     name no process, because git has no way back from one that can't be started.
//   - The filter is required: if it fails, as on a full disk, git add fails too, and commits no content.
//
// # The hooks of a workspace
//
// The tree of a repository with LFS files has git-lfs's hooks too, each a script of ours (Hook). Without pre-push, a git push
// from a container succeeds and leaves the objects behind. It executes git-lfs if that is there, and otherwise refuses
// commits with pointers. git-lfs must be able to replace the scripts, or git lfs install would fail.
package lfs
