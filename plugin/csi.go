package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/viper"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// csiSettings are the settings of the front end for Kubernetes. Without an endpoint it is off.
type csiSettings struct {
	endpoint string // path of the socket that kubelet calls
	node     string
	kubelet  string // kubelet's directory
}

// driverName is the name of the driver: that of package csi, which is not here in every program.
const driverName = "repos.helmdeck.dev"

// csiDefaults are the defaults of these settings. They are not in config.json, because a
// managed plugin of Docker can't serve kubelet.
var csiDefaults = map[string]string{"CSI_ENDPOINT": "", "CSI_NODE": "", "KUBELET_DIR": "/var/lib/kubelet"}

// maxNode is the longest node ID in bytes that CSI allows.
const maxNode = 256

// loadCSI reads the settings of the front end for Kubernetes. key is the name of a wrong setting.
func loadCSI(v *viper.Viper) (s csiSettings, key, allowed string) {
	s = csiSettings{strings.TrimPrefix(v.GetString("CSI_ENDPOINT"), "unix://"), v.GetString("CSI_NODE"), v.GetString("KUBELET_DIR")}
	switch {
	case s.endpoint != "" && newKubernetes == nil:
		return s, "CSI_ENDPOINT", "empty: this program is not the driver for Kubernetes, which is in the image helmdeck/repos-csi"
	case s.endpoint != "" && (!filepath.IsAbs(s.endpoint) || filepath.Clean(s.endpoint) != s.endpoint):
		return s, "CSI_ENDPOINT", "empty for no service to kubelet, or the absolute path of a socket, such as /var/lib/kubelet/plugins/" + driverName + "/csi.sock"
	case len(s.node) > maxNode || s.endpoint != "" && s.node == "":
		return s, "CSI_NODE", fmt.Sprintf("the name of the node, of 1 to %d bytes, if CSI_ENDPOINT is set", maxNode)
	case !filepath.IsAbs(s.kubelet) || filepath.Clean(s.kubelet) != s.kubelet:
		return s, "KUBELET_DIR", "an absolute path"
	}
	return s, "", ""
}

// checkPropagation returns an error if what is mounted here does not reach kubelet and the
// containers: pods would see empty directories.
func (s csiSettings) checkPropagation(data string) error {
	for _, dir := range []string{s.pods(), filepath.Dir(s.registration())} {
		if err := checkLinks(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{data, overlay.PointsDir(data), s.kubelet, s.pods()} {
		shared, err := overlay.IsShared(dir)
		if errors.Is(err, fs.ErrNotExist) && dir == s.pods() {
			continue // kubelet makes it in its directory
		}
		if err != nil {
			return err
		}
		if !shared {
			return fmt.Errorf("%q is not on a shared mount, so that pods would see empty directories: mount it from the host with mountPropagation: Bidirectional", dir)
		}
	}
	return nil
}

// checkLinks returns an error if a part of a path is a link that leads nowhere, such as kubelet's
// directory, or one in it, where the host has it on another disk that the container does not have.
func checkLinks(path string) error {
	for dir := path; ; dir = filepath.Dir(dir) {
		to, err := os.Readlink(dir)
		if err == nil {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%q is a link to %q, which is not here: mount that directory from the host at the same path too, or set kubelet's --root-dir, "+
					"KUBELET_DIR and the paths of the DaemonSet to where the files are", dir, to)
			}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func (s csiSettings) pods() string { return filepath.Join(s.kubelet, "pods") }

// registration returns the socket by which kubelet finds the driver.
func (s csiSettings) registration() string {
	return filepath.Join(s.kubelet, "plugins_registry", driverName+"-reg.sock")
}

// kubernetes is the front end for Kubernetes. Only the program of its image has it, which is built with the tag
// kubernetes: a checkout's process is the same program, and starts later with what the front end needs.
type kubernetes interface {
	Publications() []meta.Publication
	Sweep(ctx context.Context) error
	Run(ctx context.Context)
	// handlers returns those of kubelet's calls and of its registration. They need HTTP/2.
	handlers(endpoint string) (calls, registration http.Handler)
}

// newKubernetes makes the front end for Kubernetes; it is nil in a program without it.
var newKubernetes func(p *parts, m machine, db *meta.DB, state meta.State, log *logrus.Logger) kubernetes
