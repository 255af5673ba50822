// Package replica makes raw copies of the uppers of mounted overlays.
//
// A copy has everything that overlayfs needs, so it can be a lower layer, over the same lower layers, or an upper: all
// kinds of files, whiteouts, hard links, holes, owners, modes, times and all extended attributes. The containers of the
// overlay may write to it meanwhile, and may be hostile: below the source each step is openat2 without links and
// mounts, only directories and regular files are ever opened, and only by the inode that was found to be one. Nobody
// else may write to the destination. Durability is the caller's business: nothing is synced there.
//
// # Two passes
//
// Start copies everything while others write. The caller then pauses them, and Finish brings the copy up to date, in a
// time that depends on what changed. What changed is known by the inode, its birth and its ctime, which a program can't
// set. Three rules make that exact:
//
//   - A store into a shared mapping changes the ctime only if its page was clean, because then it faults. So between the
//     look at the ctime and that at the data, the file's dirty pages are written (sync_file_range; FICLONE does it
//     itself), which makes them clean: each later store faults. A syncfs before all of it lets that cost little. It is
//     not enough alone, because a page may get dirty between it and the copy of the file. Finish needs none.
//   - A write changes the ctime before the data. The search for data (SEEK_DATA) waits for a write that has begun,
//     because both lock the inode, and so does FICLONE.
//   - Two changes within one tick of the kernel's clock may have one ctime. So a ctime that was young when the file was
//     copied counts as changed.
//
// Link, unlink and rename change the ctime of an inode, but the rename of a directory above it does not. So each pass
// has its own table of inodes with several names: at the first name the copy is kept or made, and each other name
// becomes a name of that copy.
//
// A file that changed is copied again as a whole, and so are the files below a directory that was renamed.
//
// Start yields to everything else in the process, because nobody is paused meanwhile. At ordinary priority, copies in a loop
// made the status of another workspace take 6.6 times as long, and 1.8 times so.
//
// # One pass
//
// After Start alone, each file is as of one moment if the filesystem can clone. Otherwise a file that changed while it
// was copied is copied again, a few times, and then taken as it is and counted as torn. Several files are of several
// moments. A name of an inode that got its second name meanwhile may be a copy of its own.
//
// # Merge
//
// Merge makes one layer of several, which may all be used as lower layers meanwhile. A file is linked: it has all that
// overlayfs knows of it in its inode. A directory is made anew, with the metadata of the topmost one.
//
// What is shown is decided as the kernel does: each name is looked up from the top down, through redirects, until a
// whiteout, an opaque directory, or a file with data. What the layers below all of these may have too decides the rest. If
// the kernel would go on there under another name, the directory or the file gets that as a redirect; if it would not, the
// directory is opaque; a whiteout stays where a directory reaches them, and such a directory has the attribute of the
// origin, or the kernel would show its whiteouts if they lack it. A file without data whose data is in one of the layers is
// copied, and so is one that has as many links as it can have, or that may not be linked, and one with one link in a layer on
// which something is mounted: there it would get another inode number.
//
// # Costs
//
// A Replica keeps 80 to 160 bytes for each entry, with a name of 16 bytes, and Finish has twice that for a moment. A pass
// has a path of at most 255 bytes for each level of directories, and two open files for each, and for each directory with
// entries that wait for a worker, of which there are some 200 at most.
//
// To clone a file with many dirty pages, or in many pieces, can take a second, and does not end with the context.
package replica
