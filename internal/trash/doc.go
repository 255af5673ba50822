// Package trash deletes files and directories in the background, also those that hostile
// programs wrote.
//
// Put returns at once, however much is below the path; the caller must know that nobody uses the path any more.
// Deletion follows no symbolic link, enters no mount, opens nothing but directories, and needs as little memory as
// disk.Walk, however deep or wide the tree is. The worker rests most of the time, unless Hurry needs the room. An
// entry that somebody still writes to does not delay the others. An entry that can't be deleted is reported once
// and stays until the next start. Open queues what a crash left in the directory, and never touches names that Put
// does not give.
package trash
