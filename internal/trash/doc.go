// Package trash deletes, in the background, directories that hostile
// programs wrote.
//
// A caller may rely on this: Put returns at once however much is below the
// path. An entry is deleted only after the check given to Open said that
// nobody uses it. Deleting follows no symbolic link, enters no mount, opens
// nothing but directories, and takes a constant number of descriptors and a
// constant amount of memory, however deep or wide the tree is. What can't be
// deleted is reported once and stays until the next start. What a crash leaves
// in the directory is queued by the next Open.
//
// The names in the directory are the only state that lasts:
//
//	<name>-<16 hex digits>            waits for its check and its deletion
//	<name>-<16 hex digits>.checked    passed its check, may be half deleted
package trash
