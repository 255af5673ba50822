// Package trash deletes files and directories in the background, also those that hostile
// programs wrote.
//
// Put returns at once, however much is below the path; the caller must know that nobody uses the path any more.
// Deletion follows no symbolic link, enters no mount, opens nothing but directories, and needs as little memory as
// disk.Walk, however deep or wide the tree is. The worker rests most of the time, unless Hurry needs the room. An
// entry that somebody still writes to does not delay the others. An entry that can't be deleted is reported once
// and stays until the next start. Open queues what a crash left in the directory, and never touches names that Put
// does not give.
//
// It rests three times as long as it works, in slices of 5 ms, at the lowest I/O priority and a niceness of 3. Its
// work is what its thread computed, and up to three times as much of waiting for the disk; waiting for a processor is
// none (/proc/thread-self/schedstat), because beside programs that compute all the time it would make the rests
// longer, when the trash gets little already. BenchmarkBusy has the figures. With 150,000 files on a journaled ext4,
// beside what a mount does (directories, an overlay, a commit; alone at most 7.6 ms in nine of ten cases):
//
//	                 a mount's work, at most in nine of ten cases    deleted in
//	without rests    14.3 ms                                         1.9 s
//	with rests        6.6 ms                                         5.6 s
//
// A container that kept a workspace may write into it when it is in the trash already. So an entry gets a turn: three
// passes, and two minutes. If fewer files were deleted than were measured, it is only large, and gets another turn
// after the others. Any other entry that is not empty then counts as nothing to be freed, and is worked on only while
// nothing else is to be deleted, with pauses that double up to five minutes.
package trash
