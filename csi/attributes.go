package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// What kubelet adds to the attributes of a volume. It overwrites what a pod's spec has
// there, and removes nothing else.
const (
	kubeletPrefix      = "csi.storage.k8s.io/"
	attrEphemeral      = kubeletPrefix + "ephemeral"
	attrPodName        = kubeletPrefix + "pod.name"
	attrPodNamespace   = kubeletPrefix + "pod.namespace"
	attrPodUID         = kubeletPrefix + "pod.uid"
	attrServiceAccount = kubeletPrefix + "serviceAccount.name"
)

// allowed are the attributes that are options of the same name. The others decide what a
// volume shares with whom: the pod is asked for that, not its spec.
var allowed = []string{
	"repo", "url", "ref", "from", "cache", "cache_link", "publish", "warm", "warm_key", "warm_files", "warm_exact", "uid", "gid", "refresh", "stale_if_error", "depth", "filter", "cold", "sparse",
	"submodules", "submodule_errors", "lfs", "credential", "auth", "size", "inodes",
}

// request is what the attributes of a volume say.
type request struct {
	pod       meta.Pod
	ephemeral bool
	options   map[string]string
}

// parseAttributes reads the attributes of a volume, as kubelet passes them.
func parseAttributes(attributes map[string]string) (r request, err error) {
	r.pod = meta.Pod{
		Namespace: attributes[attrPodNamespace], Name: attributes[attrPodName], UID: attributes[attrPodUID],
		ServiceAccount: attributes[attrServiceAccount],
	}
	if r.pod.Namespace == "" || r.pod.Name == "" || r.pod.UID == "" || r.pod.ServiceAccount == "" {
		return request{}, failf(codes.InvalidArgument, "kubelet did not say for which pod the volume is: set podInfoOnMount: true in the CSIDriver object %s", Name)
	}
	switch text := attributes[attrEphemeral]; text {
	case "true":
		r.ephemeral = true
	case "", "false":
	default:
		return request{}, failf(codes.InvalidArgument, "attribute %s=%.40q: allowed is true or false", attrEphemeral, text)
	}
	mode := string(volume.ModeKeep)
	if r.ephemeral {
		mode = string(volume.ModePrivate)
	}
	r.options = map[string]string{"mode": mode, "subject": string(subjectOf(r.pod))}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		value := attributes[name]
		switch {
		case strings.HasPrefix(name, kubeletPrefix), name == provisionerIdentity:
		case slices.Contains(allowed, name):
			r.options[name] = value
		case name == "mode" && value == mode:
		case name == "mode" && r.ephemeral:
			return request{}, failf(codes.InvalidArgument, "attribute mode=%.40q is not allowed in a pod's spec, whose volume ends with the pod: use a PersistentVolume for mode=keep", value)
		case name == "mode":
			return request{}, failf(codes.InvalidArgument, "attribute mode=%.40q: a PersistentVolume has mode=keep", value)
		case name == "subject":
			return request{}, failf(codes.InvalidArgument, "attribute subject is not allowed: the subject is the pod's namespace and service account")
		default:
			return request{}, failf(codes.InvalidArgument, "attribute %.80q is not allowed; allowed are %s", name, strings.Join(allowed, ", "))
		}
	}
	return r, nil
}

// provisionerIdentity is added by Kubernetes' own tools to persistent volumes.
const provisionerIdentity = "storage.kubernetes.io/csiProvisionerIdentity"

const (
	subjectPrefix = "k8s/"
	hashedPrefix  = "k8s-sha256/"
)

// isPods reports whether a subject is that of a pod.
func isPods(s volume.Subject) bool {
	return strings.HasPrefix(string(s), subjectPrefix) || strings.HasPrefix(string(s), hashedPrefix)
}

// subjectOf returns the subject of a pod: k8s/<namespace>/<service account>, of which
// neither can contain a slash. If that is longer than a subject may be, it is k8s-sha256/
// and the hash, which no namespace and service account can make.
func subjectOf(p meta.Pod) volume.Subject {
	text := subjectPrefix + p.Namespace + "/" + p.ServiceAccount
	if s, err := volume.ParseSubject(text); err == nil {
		return s
	}
	sum := sha256.Sum256([]byte(text))
	return volume.Subject(hashedPrefix + hex.EncodeToString(sum[:]))
}
