// Package git is the only place that executes git.
//
// Every command runs with an environment built from nothing (no system, global or user
// configuration, no hooks, no prompts, no credential helpers), as the unprivileged uid
// that the caller names, in a sandbox (internal/git/sandbox) with access to the directories
// of its task only. Only LsRefs, Fetch, FetchPack, FetchObjects and RunRemote can talk to a
// remote, over the transports that New was given; all other commands have no transport, so a
// missing object is an error. Do not use this package on a directory that a container could
// have written to.
//
// Errors of git are *giterror.Error: they give the kind of failure and what a user can do
// about it.
//
// # Commands that talk to a remote
//
// They go through one function (runRemote): it tries again if that may help (package giterror), follows redirects
// itself, looks up the credential for exactly the URL that is asked, and classifies the error.
//
// git itself follows no redirect (http.followRedirects=false). If one comes, the plugin sends one request, with the
// credential of that URL, and follows it within scheme, host and port, or from http to https on their default ports,
// MaxRedirects times at most, with the credential of the new URL. Any other redirect is an error that names the place.
//
// A password or a token reaches git over a pipe: a credential helper, a short shell function in the configuration for
// exactly that URL, reads it from descriptor 3, and answers only if scheme and host match. git gets this configuration
// in its environment (GIT_CONFIG_KEY_n), after an empty credential.helper; an empty one on the command line would be
// read later, and remove our helper. An ssh key stays in the plugin's memory, in an agent with a socket for one
// command (package gitssh). Bearer tokens need git 2.46.
//
// A 401 with a secret that was held asks for another one, once (WithAuth). One that has just been given is refused for
// good, and so is a static secret at the first 401, because some servers lock a user after a few tries. A 403 is about
// rights, which another secret of the same provider would not have.
//
// Silence ends a command after five minutes: for HTTP, curl or this process counts the bytes, git's keep-alives
// included; for ssh, the plugin watches what git prints. If git does not say what is wrong, the plugin connects once
// more to find out (explain): libcurl has one sentence for all problems with a certificate, and ssh does not show the
// key of a host that it refuses.
//
// # Who asks and who fetches
//
// Over HTTP this process asks (LsRefs), because on a real network a new connection costs more than all else in a warm
// mount. With 10,000 pull requests, git ls-remote moves 649 KB for a question that finds nothing new, and prefixes 0.2
// KB. If the question fails here, git asks: its retries and its words are those of a fetch. Only redirects, wrong
// answers, the server's own messages, the end of the time and a refused credential are final. git asks from the
// beginning at servers without protocol 2 (remembered for ten minutes), over ssh and git://, and on the loopback if a
// proxy is set.
//
// Over HTTP this process also fetches (FetchPack), where the question has listed all refs that matter: one request on
// the open connection, and git index-pack reads the pack, in its sandbox and without a transport. With 100,000 files,
// 100 of them changed, git fetch took 97 ms with four processes and three more requests, and this takes some 85 ms. If
// the server finds no common history among the refs of the store, or anything else fails, git fetches, and its error
// is the one that users see.
//
// # What a fetch leaves
//
// A store must have all that its refs reach. That an object is there proves nothing about what it refers to, because a
// fetch that failed may have left its pack. index-pack follows the objects of a first fetch, which it has in memory
// anyway (--check-self-contained-and-connected): 2.0 s for 330,000 objects, in place of 1.7 s and 1.1 s for the walk of
// git fetch. See Connected for updates.
//
//   - The pack comes through a socket (sandbox.Stdin): a pipe wakes the plugin for each page that index-pack reads, a
//     socket when half of its buffer is free (20,000 commits, 23 MB: 1.01 s against 1.05 s).
//   - No reverse index is written: index-pack of 205,000 objects takes 1.35 s without and 1.44 s with one. git needs
//     the list to send objects of a pack, and makes it in memory then (6 ms for these).
//   - A first fetch needs no init and no pack-refs: the plugin writes the few files of an empty store itself. Nothing
//     of the remote stays in the store: git's config and HEAD are replaced before the store gets its name (TestClone,
//     TestFetchFirstPack). The template is empty, so there are no hooks.
//   - git gets memory in huge pages, if the kernel has them (see allocation): index-pack of 20,000 commits takes 1.72
//     s in place of 1.85 s.
//   - Neither git nor the plugin syncs before the end, but the disk begins to write a pack of more than 1 MiB while
//     git resolves its deltas.
//
// # Slots and limits
//
// A command that computes has a slot of a processor, one that receives a slot of a fetch (package work). A fetch takes
// a processor only when it has its pack: the resolution of deltas has no bound by the remote's rate, and a pack of 2
// MiB can ask for terabytes. When git says that this begins, its process group is stopped (SIGSTOP) until it has a
// slot. Then its threads use the processors that no slot is held for (work.Slot.Room), at least one. Local work may
// take WORK_TIMEOUT, a fetch with all its tries FETCH_TIMEOUT, both from when it has its slot, a question ASK_TIMEOUT
// in all, and 20 s of processor time.
//
// Limits are set by a shell that then becomes the program, which costs half a millisecond: the plugin has no
// CAP_SYS_RESOURCE, without which a process can't limit one of another uid, and limits that are set after the start
// miss what was forked before. Each process may have a third of the memory of the machine or the control group: 256
// MiB at least, 4 GiB at most, unless GIT_MEMORY says otherwise. All but the questions that a Mount waits for have a
// nice value five above the plugin's, and five more for each heavy command that their subject runs already.
//
// Limits on the size of a repository are constants for what most machines can have, times the setting SIZE_FACTOR
// (SizeFactor).
//
// Names are never listed: ten trees make 10^15 paths. For a store without blobs, git says which objects below the
// trees of a cone are missing (rev-list --objects --missing=print), which costs as much as there are objects.
package git
