//go:build !kubernetes

package main

import (
	"strings"
	"testing"
)

// TestNoDriver: a program without the driver for Kubernetes does not start as one that serves nobody.
func TestNoDriver(t *testing.T) {
	t.Parallel()
	if _, err := loadSettings(environment("CSI_ENDPOINT=/run/csi.sock", "CSI_NODE=node")); err == nil || !strings.Contains(err.Error(), "not the driver for Kubernetes") {
		t.Errorf("%v", err)
	}
}
