// Package handout hands the credential of a volume to git in the containers that have a mount of
// it (auth=container).
//
// A workspace has a directory, which is bound read-only at .git/helmdeck (Mount):
//
//	workspaces/<id>/helper/
//	  credential      a shell script: a credential helper of git
//	  socket          where a Server answers, while the workspace has leases
//
// A section of the workspace's .git/config (Section) makes git run the script for the URL of the
// repository. The script passes the question to the socket through `git credential-cache`, which
// every git has, and which sends on what it reads. So no program of ours runs in the container, and
// the containers share no file that one of them could change for another.
//
// A caller may rely on this:
//
//   - A socket answers for one repository: that of its workspace's volume, by scheme, host, port and
//     path. Any other question gets no secret.
//   - Every question is a question to Config.Credential: the Server keeps no secret.
//   - A connection is bounded in bytes and in time, and the connections at a time are bounded for each
//     workspace and each subject, so that a subject delays only itself.
//   - When End returns, the socket is gone and its connections are closed.
//
// Containers write what a socket reads, and nothing else that is used here: a container with
// CAP_SYS_ADMIN, which can make the bind writable, changes only its own workspace's directory, and
// what is in that is made again by descriptor, without following links.
//
// # Why a script and git credential-cache
//
// git credential-cache is a part of git: its client sends its input to a socket and prints what comes back. Its
// protocol is the attributes of a credential after a line with the operation, without a change since git 1.7.9. A
// static program of the plugin, bound into each workspace, would need none of that, but containers of all subjects
// would share one file, which one with CAP_SYS_ADMIN could make writable and change for all; it is for one
// architecture; it would keep a file of an earlier version's root filesystem in use; and it is 15 MB.
//
// Only .git/config of the workspace knows the script. Its git layer is shared by all workspaces of a ref, so the upper
// of a workspace with the option begins with a copy of the layer's .git/config and the Section; as long as that file
// is the same, it is no change. A volume without the option can begin with a checkpoint of one with it, and not the other way round,
// because the plugin does not edit what a container wrote.
//
// The directory is bound, not the socket: a plugin that starts again makes the socket under the same name, and the
// containers see it. connect(2) needs no writable mount.
//
// The socket is made before the record of its first lease is committed, and removed after that of its last end, in the
// one function of package workspace that every change of a lease passes, so that a lost or forced lease ends it too. A
// container that outlived docker plugin disable -f has lost its lease, and with the plugin's mounts also the bind: it
// gets nothing.
//
// At most 4 connections of a workspace are open, and 16 of a subject are served at a time; the others wait in the
// kernel. A provider that fails is not asked again for 5 s, and a secret that was given in place of a refused one is
// not replaced for a minute, whoever asks (package credential), so that containers can't make the plugin flood a
// provider.
package handout
