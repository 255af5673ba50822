package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/sirupsen/logrus"
	"github.com/spf13/viper"

	"github.com/helmdeck/repos/csi"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// csiSettings are the settings of the front end for Kubernetes. Without an endpoint it is off.
type csiSettings struct {
	endpoint string // path of the socket that kubelet calls
	node     string
	kubelet  string // kubelet's directory
}

// csiDefaults are the defaults of these settings. They are not in config.json, because a
// managed plugin of Docker can't serve kubelet.
var csiDefaults = map[string]string{"CSI_ENDPOINT": "", "CSI_NODE": "", "KUBELET_DIR": "/var/lib/kubelet"}

// maxNode is the longest node ID in bytes that CSI allows.
const maxNode = 256

// loadCSI reads the settings of the front end for Kubernetes. key is the name of a wrong setting.
func loadCSI(v *viper.Viper) (s csiSettings, key, allowed string) {
	s = csiSettings{strings.TrimPrefix(v.GetString("CSI_ENDPOINT"), "unix://"), v.GetString("CSI_NODE"), v.GetString("KUBELET_DIR")}
	switch {
	case s.endpoint != "" && (!filepath.IsAbs(s.endpoint) || filepath.Clean(s.endpoint) != s.endpoint):
		return s, "CSI_ENDPOINT", "empty for no service to kubelet, or the absolute path of a socket, such as /var/lib/kubelet/plugins/" + csi.Name + "/csi.sock"
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

func (s csiSettings) pods() string { return filepath.Join(s.kubelet, "pods") }

// registration returns the socket by which kubelet finds the driver.
func (s csiSettings) registration() string {
	return filepath.Join(s.kubelet, "plugins_registry", csi.Name+"-reg.sock")
}

// newCSI returns the front end for Kubernetes; nil if it is off.
func (p *parts) newCSI(m machine, db *meta.DB, state meta.State, log *logrus.Logger) *csi.Driver {
	s := m.set.csi
	if s.endpoint == "" {
		return nil
	}
	return csi.New(csi.Config{
		Volumes: p.volumes, DB: db, Lend: p.credentials, Log: log, Now: m.at.clock(), Version: version, Node: s.node, Kubelet: s.kubelet,
		Wait: m.set.mountWait, Unready: func() error { return s.checkPropagation(m.at.data) },
	}, state)
}
