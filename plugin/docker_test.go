//go:build !kubernetes

package main

import (
	"strings"
	"testing"
)

// TestNoDriver: a program without the driver for Kubernetes does not start as one that serves nobody.
func TestNoDriver(t *testing.T) {
	t.Setenv("CSI_ENDPOINT", "/run/csi.sock")
	t.Setenv("CSI_NODE", "node")
	if _, err := loadSettings(); err == nil || !strings.Contains(err.Error(), "not the driver for Kubernetes") {
		t.Errorf("%v", err)
	}
}
