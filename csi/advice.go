package csi

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/workspace"
)

// advice has what a pod's author can do about the error of a volume without a credential, by the kind of the error. The
// kinds' own advice is for those who can use the operator's command.
var advice = map[giterror.Kind]string{
	giterror.KindAuth: "the repository is private, or does not exist: name a secret of the pod's namespace with a credential for it in nodePublishSecretRef",
	giterror.KindNotFound: "check the spelling of the URL; a host may give the same answer for a private repository: then name a secret of the pod's " +
		"namespace with a credential for it in nodePublishSecretRef",
}

// operators has the advice about errors of all volumes, where the kind's own names a command of Docker's: here an operator
// executes docker-repos in the driver's container, and each node has credentials of its own.
var operators = map[giterror.Kind]string{
	giterror.KindHostKey: "compare the fingerprint with the one that the host's owner publishes; an operator then stores the line on each node " +
		"(docker-repos credentials put --kind known-hosts, in the driver's container)",
	giterror.KindHostChanged: "somebody may be between you and the host: ask its owner, and only if the new key is right an operator stores its line in place of " +
		"the old one on each node (docker-repos credentials put --kind known-hosts, in the driver's container)",
	giterror.KindHost:    "check the host's name, and the cluster's name servers: docker-repos doctor, in the driver's container, lists those that were asked",
	giterror.KindTLS:     "the server's certificate is not trusted; add its authority to the setting CA_BUNDLE of the DaemonSet",
	giterror.KindNoSpace: "free space on the node's filesystem with the driver's data: docker-repos df, in the driver's container, shows whose it is",
}

// advisedError is an error whose text ends with other advice.
type advisedError struct {
	text string
	err  error
}

func (e *advisedError) Error() string { return e.text }
func (e *advisedError) Unwrap() error { return e.err }

// noCheckpoint returns the error of a volume that begins with a checkpoint that is not here. It is the same for one of another
// node and one of another subject, so that it tells nothing of others.
func (d *Driver) noCheckpoint(c call) error {
	return failf(codes.NotFound, "there is no checkpoint %q of the subject %q on this node (%s): a checkpoint is on the node of the pod that it was made of, and only for pods "+
		"of the same namespace and service account. Pin the pod to that node (nodeName, or nodeAffinity); docker-repos checkpoints ls, in the driver's container of a node, "+
		"lists the checkpoints that are on it", c.options["from"], c.options["subject"], d.config.Node)
}

// advised returns the error of a volume with advice for those who run pods.
func (d *Driver) advised(c call, err error) error {
	_, unknown := errors.AsType[*workspace.NoCheckpointError](err)
	// What begins with a checkpoint asks no remote, so that nothing else can be missing.
	if unknown || c.options["from"] != "" && verbs.KindOf(err) == verbs.NotFound {
		return d.noCheckpoint(c)
	}
	e, ok := errors.AsType[*giterror.Error](err)
	if !ok || e.Remedy != "" {
		return err
	}
	text := operators[e.Kind]
	if len(c.secrets) == 0 && c.options["credential"] == "" && advice[e.Kind] != "" {
		text = advice[e.Kind]
	}
	if text == "" {
		return err
	}
	before, ok := strings.CutSuffix(err.Error(), e.Advice())
	if !ok {
		return err
	}
	return &advisedError{before + text, err}
}

// forPods returns a text for those who run pods. They have no Docker, of whose command most texts speak: the same program is in
// the driver's container, under the name docker-repos. Nor do they run anything again: kubelet does, after every error.
func forPods(text string) string {
	const command = "docker repos "
	text = strings.ReplaceAll(text, ": run it again", ": kubelet tries again")
	if !strings.Contains(text, command) {
		return text
	}
	return strings.ReplaceAll(text, command, "docker-repos ") + " (docker-repos is in the driver's container on each node)"
}
