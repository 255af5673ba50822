// Command bench measures what mounts and unmounts cost, beside what others do
// today for the same work, and says which of the targets that the project has
// set itself are met.
//
//	bench [-files 1000,10000,100000] [-runs 7] [-rows cold,warm,…] [-out build/bench.json]
//	bench -against COMMIT [-files 100000] [-runs 9] [-rows cold,warm,…] [-out build/bench-against.json]
//	bench -report docs [-out build/bench.json]
//
// For each number of files there is one git server in this process, over HTTP,
// which all ask. Every group of rows has a fresh, journaled ext4 filesystem on a
// loop device, on which nothing was deleted before, and on it the real program,
// started with its data there and driven over its socket as the engine does it;
// or a Docker engine of its own with the plugin in it. All peers work on that same
// filesystem. Rows that are compared are measured in turns, so that the noise of
// the machine hits both.
//
// With -against the plugin's rows are measured without peers, on three builds in
// turns: this one, the one of that commit, and a copy of the latter as control,
// each with its data on the same filesystem. The builds change places from turn to
// turn, and a turn begins when no build works in the background. A row of more
// than 2 ms that is more than 10% slower than before is an error, unless the
// control differs by as much; see contrast. The root filesystem and git are the
// same for all.
//
// With -report nothing is measured: the page docs/performance.md and its picture
// are written from what an earlier run has left in -out.
//
// A caller may rely on this: what was mounted, started and written is gone at
// the end, also after an error, SIGINT or SIGTERM, but for the file -out. The
// exit code is 1 when something failed, or is slower than before with -against, and
// 0 when a target was missed; what was measured until then is reported nevertheless. It needs root, git, e2fsprogs and
// the mount programs of util-linux; tar and go with -against; dockerd, containerd, docker and a static
// busybox for the rows with containers.
//
// A new row or peer is one more row in a group; a group is a function in the list
// that groups returns.
package main
