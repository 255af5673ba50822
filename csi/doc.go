// Package csi is the front end for Kubernetes: a CSI driver with the services Identity and
// Node, and its registration with kubelet. It translates the protocol into verbs, with grpc-go
// and the specification's own types. Only the program for Kubernetes imports it.
//
// An inline ephemeral volume is a volume with mode=private that exists as long as it is
// published: the pod's spec has its options. A static persistent volume has mode=keep, and
// stays. In both cases the pod decides the subject: its namespace and service account.
//
// Callers may rely on this: a call that fails leaves nothing behind, unless its error says
// that a call is under way or has to be repeated (codes Aborted, Unavailable); repeating a
// call has the same result, in whatever order kubelet sends them, also after a restart of
// either. Publications are in the database before anything else is made for them.
//
// # Why so
//
// A publication is recorded first: NodePublishVolume commits a record (meta.Publication), creates the volume, acquires
// its lease, makes the directory, and shows the workspace there. NodeUnpublishVolume, and a publish that fails, undo
// that from the end. So whatever a crash leaves has a record, and either call repairs it:
//
//   - kubelet calls again, for the same path, after a restart of either. If the lease is there, the pod may have files
//     in its workspace, so the call completes what is missing, and its code is then never final. If not (a crash, a
//     reboot), all that is left is undone, and the call begins anew.
//   - A pod whose directory kubelet has removed gets no call any more: a sweep undoes its publication, at the start
//     and each ten minutes. It does nothing if even the directory of all pods is missing, because another one may be
//     mounted there by mistake.
//   - The database may be lost. Leases come back from the manifests of workspaces; a lease's ID is a hash of the path,
//     so both calls find it.
//
// After a final code kubelet takes it for certain that nothing is published, and sends no NodeUnpublishVolume. So
// nothing is left after an error, and if it could not be undone, the code is Unavailable. The second of two calls for
// one path gets Aborted. Calls for one volume at several paths wait for each other, because between the creation of a
// persistent volume and its first lease another subject's call would replace it, and the first pod get that one's
// files. The work of a call ends a second before kubelet's deadline, so that the answer says what goes on.
//
// The pod decides the subject, never its spec. If the CSIDriver object lacks podInfoOnMount, kubelet passes on what
// the spec has under the names of a pod's attributes: so the pod's UID must be that of the target path, which nobody
// knows who writes a spec. A kept volume belongs to the subject that first mounted it, because a PersistentVolume can
// be bound to another namespace later; another one is refused, and the error does not name the first.
//
// A secret is lent (credential.Store.Lend) until the volume is unpublished. It is in no option and no record, so after
// a restart the volume has none, which a mounted workspace does not need.
//
// Mounts must reach the node: the container has the data and kubelet's directory with mountPropagation: Bidirectional,
// and the start and each Probe look for that in the mount table (overlay.IsShared).
//
// # A program of its own
//
// Only the program in the image for Kubernetes has this package: plugin/kubernetes.go, built with the tag kubernetes. A
// checkout's process is the same program, and starts later with grpc-go: by 0.5 to 0.6 ms (medians of 300 starts in
// turns, three times: 4.8 and 5.3 ms; 42 more packages are initialized), and by 1.3 ms while the machine was slower (6.0
// and 7.4 ms). On amd64 the programs have 17.5 and 18.9 MB; without the tag grpcnotrace, which leaves out grpc-go's
// debugging pages, it would be 23 MB.
//
// grpc-go answers over net/http (grpc.Server.ServeHTTP), so kubelet's sockets have the server, the bounds and the end
// of all others. grpc-go's own transport has no bound on a client that is slow with a message, nor on frames without a
// request. The types are those of version 1.12 of the specification, because 1.13 has no VolumeCondition any more, which
// kubelet can still show.
package csi
