// Package upper makes the writable directories of workspaces, and says whether a container
// changed anything in them.
//
// An upper begins with .git/helmdeck.json, which describes the workspace to programs in the
// container, and with the link to the cache. These files are no changes, nor is what git
// writes when it only reads.
//
// Containers write to an upper while it is mounted. Afterwards it is walked by descriptor, no
// symlink in it is followed, and nothing in it is executed.
//
// # Mount points of containers
//
// For -v file:/w/.env runc makes an empty file in the workspace, before any process of the container runs. Nothing in
// the file says who made it, no event says when the first process started, and what the container mounts is not seen
// from here. So isPoint has rules that miss a mount point rather than a file that somebody made: with --userns-remap,
// and with runc 1.1.14 or newer in workspaces of root, a mounted file leaves a checkpoint.
package upper
