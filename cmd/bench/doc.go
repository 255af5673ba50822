// Command bench measures mounts and unmounts, compares them with other ways to do the
// same work, and reports which of the project's targets are met.
//
//	bench [-files 1000,10000,100000] [-runs 7] [-rows cold,warm,…] [-out build/bench.json]
//	bench -against COMMIT [-files 100000] [-runs 9] [-rows cold,warm,…] [-out build/bench-against.json]
//	bench -report docs [-out build/bench.json]
//
// For each number of files there is one git server in this process, over HTTP, for all
// rows. Every group of rows has a fresh, journaled ext4 filesystem on a loop device, on
// which nothing was deleted before, and on it the real program, driven over its socket as
// the engine does, or a separate Docker engine with the plugin. All peers use the same
// filesystem. Rows that are compared are measured in turns, so that noise affects both.
//
// With -against the plugin's rows are measured without peers, on three builds in turns:
// this one, that of the commit, and a copy of the latter as control, all with their data
// on one filesystem. The order of the builds changes from turn to turn, and a turn begins
// when no build works in the background. A row of more than 2 ms that is more than 10%
// slower than before is an error, unless the control differs by as much; see contrast.
// All use the same root filesystem and git.
//
// With -report nothing is measured: the page docs/performance.md and its picture are
// written from an earlier run's results in -out.
//
// At the end, also after an error, SIGINT or SIGTERM, all that it mounted, started and wrote is removed, except the
// file -out. The exit code is 1 if something failed, or, with -against, is slower than before, and 0 if a target
// was missed; results until then are reported in any case. It needs root, git, e2fsprogs and the mount programs of
// util-linux; tar and go with -against; dockerd, containerd, docker and a static busybox for the rows with
// containers.
//
// To add a row or peer, add a row to a group; a group is a function in the list that
// groups returns.
package main
