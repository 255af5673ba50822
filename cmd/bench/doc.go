// Command bench measures mounts and unmounts, compares them with other ways to do the
// same work, and reports which of the project's targets are met.
//
//	bench [-files 1000,10000,100000] [-runs 7] [-rows cold,warm,…] [-out build/bench.json]
//	bench -against COMMIT [-files 100000] [-runs 9] [-rows cold,warm,…] [-out build/bench-against.txt]
//	bench -repos DIRECTORY [-runs 3] [-rows cold,warm,update] [-out build/bench-repos.json]
//	bench -report docs [-out build/bench.json]
//
// For each number of files, or each bare repository in the directory, one git server in this process serves all rows over HTTP, except those
// of the groups distance, history and advance: they have a server with TLS behind a proxy that
// adds round trips. Every group of rows has a new, journaled ext4 filesystem on a loop device, on
// which nothing was deleted before. On it runs the real program, called over its socket as the engine calls it,
// or a separate Docker engine with the plugin. All peers use the same filesystem. Rows that
// are compared are measured in turns, so that noise affects both.
//
// With -against the plugin's rows are measured without peers, on two builds in turns: this one and
// that of the commit, with their data on one filesystem. The order of the builds changes from turn to
// turn, and a turn begins when no build works in the background. The results are in the format of
// Go's benchmarks, for benchstat -col build. A row of more than 2 ms that is more than 10% slower than
// before is an error: measure it once more alone, because noise does that too. Both builds use the
// same root filesystem and git.
//
// With -repos it measures copies of real repositories, in which a push moves the main branch
// ahead to later commits of its own. With -against too, it compares builds on them. With -gitsync
// the program kubernetes/git-sync runs instead of an imitation, with any of these.
//
// With -report nothing is measured: the page docs/performance.md is written from the results
// of an earlier run in -out, and of one with -repos beside it.
//
// At the end, and after an error, SIGINT or SIGTERM, bench removes everything that it mounted,
// started and wrote, except the file -out. It reports the results that it has in any case. The
// exit code is 1 if something failed or, with -against, is slower than before; a missed target
// does not change it. bench needs root, git, e2fsprogs and the mount programs of util-linux;
// with -against also tar and go; for the rows with containers also dockerd, containerd, docker,
// tar and ldd.
//
// To add a row or peer, add a row to a group; a group is a function in the list that
// groups returns.
package main
