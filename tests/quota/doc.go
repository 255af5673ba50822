// Package quota tests the limits of workspaces, on XFS and on ext4 with project quotas.
//
// Few machines have such a filesystem, and some kernels can't have one. So TestQuota boots Debian's kernel in a virtual
// machine, and the tests of the files with the build tag quota run in there, as root, with the plugin's program, git
// and BusyBox. A container is a process in a mount namespace of its own, with the capabilities that Docker gives.
package quota
