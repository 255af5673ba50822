// Package hostnames makes a managed plugin look up host names as its host does.
//
// An engine binds the host's /etc/resolv.conf and /etc/hosts into a managed plugin when it starts
// it. A program of the host that replaces such a file, as VPNs and DHCP clients do, renames a new
// file over it, and the plugin's mount still shows the old one. So the plugin also gets the host's
// directories /etc and /run, where such a file can be or lead to, read-only. A Follower copies the
// files from there, and makes /etc/resolv.conf and /etc/hosts links to the copies. A copy changes at
// once, because a new file is renamed over it, and a process that may read only the directory of
// the copies can read each of them.
//
// While the host has no such file, or one that can't be read, the last copy stays in use. A file
// that was never read stays as the engine gave it.
//
//   - Go's resolver looks at its files at most every five seconds, so a change takes six seconds at most: the Follower
//     looks once a second.
//   - git's children, which Landlock confines, may read the directory of the copies, so a fetch that runs during a
//     change reads the new file too.
//   - Why not end, so that the engine starts the plugin again with new mounts? It does so only if both files exist at
//     that moment. If not, no engine from 20.10 to 28.5 tries again. Some DHCP clients write the file anew at each
//     renewal, and a restart interrupts every fetch.
//   - What the mounts allow: only root may enter /host, and git's children have neither that uid nor a right by
//     Landlock. The plugin itself is trusted with root on the host in any case.
//   - A service of the host uses the host's own files. In Kubernetes kubelet writes both files of a pod when it makes
//     the pod, so a pod has to be made again after a change of the node's /etc/hosts.
package hostnames
