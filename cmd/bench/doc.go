// Command bench measures what mounts and unmounts cost, beside what git costs
// for the same work, and checks the targets that the project has set itself.
//
//	bench [-files 1000,10000,100000] [-dirty 0,1000,50000] [-program build/helmdeck-repos] [-out build/bench.json] [-dir /var/tmp]
//
// For each number of files there is a fresh, journaled ext4 filesystem on a loop
// device, a git server in this process with its repository elsewhere, and the
// real program, started with its data on that filesystem and driven over its
// socket as the engine does it. All peers work on the same filesystem and ask
// the same server. Rows that are compared are measured in turns, so that the
// noise of the machine hits both.
//
// A caller may rely on this: what was mounted, started and written is gone at
// the end, also after an error, SIGINT or SIGTERM, but for the file -out. The
// exit code is 1 when something failed or a target was missed; what was measured
// until then is reported nevertheless. It needs root, git, e2fsprogs and
// the mount programs of util-linux.
//
// A new row or peer is one more row in a group; a group is a function of a scene
// in the list that groups returns.
package main
