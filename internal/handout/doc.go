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
package handout
