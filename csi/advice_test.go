package csi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
)

// TestAdvice checks that an error of a pod's volume names no command that only Docker's users have.
func TestAdvice(t *testing.T) {
	with := call{request: request{options: map[string]string{"credential": "x"}}}
	for _, tt := range []struct {
		call call
		err  *giterror.Error
		want string
	}{
		{call{}, &giterror.Error{Kind: giterror.KindAuth}, "nodePublishSecretRef"},
		{with, &giterror.Error{Kind: giterror.KindHostKey}, "store"},
		{call{}, &giterror.Error{Kind: giterror.KindHostKey}, "on each node (docker-repos credentials put --kind known-hosts"},
		{call{}, &giterror.Error{Kind: giterror.KindHostChanged}, "docker-repos credentials put"},
		{call{}, &giterror.Error{Kind: giterror.KindTLS}, "CA_BUNDLE of the DaemonSet"},
		{call{}, &giterror.Error{Kind: giterror.KindTLS, Remedy: "renew it"}, "renew it"},
		{with, &giterror.Error{Kind: giterror.KindAuth}, "(docker-repos is in the driver's container"},
		{call{}, &giterror.Error{Kind: giterror.KindAuth, Remedy: "the submodule is private (docker repos credentials put)"}, "(docker-repos credentials put)"},
	} {
		got := forPods((&Driver{}).advised(tt.call, fmt.Errorf("mount: %w", tt.err)).Error())
		if !strings.Contains(got, tt.want) || strings.Contains(got, "docker repos") || strings.Contains(got, "docker plugin") {
			t.Errorf("%s: got %q, want %q", tt.err.Kind, got, tt.want)
		}
	}
}

// TestForPods checks that an error asks nobody to run again what kubelet repeats by itself.
func TestForPods(t *testing.T) {
	got := forPods("fetch: 5 of 9 objects, not done after 1m30s, continues in the background: run it again")
	if want := "fetch: 5 of 9 objects, not done after 1m30s, continues in the background: kubelet tries again"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
