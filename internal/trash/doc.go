// Package trash deletes, in the background, directories that hostile
// programs wrote.
//
// A caller may rely on this: Put returns at once however much is below the
// path; that nobody uses it any more is for its caller to know. Deleting follows
// no symbolic link, enters no mount, opens nothing but directories, and takes
// what a disk.Walk takes, however deep or wide the tree is. The worker rests
// most of the time, unless Hurry says that room is needed. An entry that somebody
// still fills keeps no other waiting. What can't be deleted is reported once and stays until the next start. What a crash leaves
// in the directory is queued by the next Open; what has another name than Put
// gives is never touched.
package trash
