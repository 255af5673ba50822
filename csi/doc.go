// Package csi is the front end for Kubernetes: a CSI driver with the services Identity and
// Node, and its registration with kubelet. It translates the protocol into verbs.
//
// An inline ephemeral volume is a volume with mode=private that exists as long as it is
// published: the pod's spec has its options. A static persistent volume has mode=keep, and
// stays. In both cases the pod decides the subject: its namespace and service account.
//
// Callers may rely on this: a call that fails leaves nothing behind, unless its error says
// that a call is under way or has to be repeated (codes Aborted, Unavailable); repeating a
// call has the same result, in whatever order kubelet sends them, also after a restart of
// either. Publications are in the database before anything else is made for them.
package csi
