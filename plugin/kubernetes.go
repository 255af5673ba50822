//go:build kubernetes

package main

import (
	"net/http"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/csi"
	"github.com/helmdeck/repos/internal/meta"
)

func init() { newKubernetes = newDriver }

// csiDriver is a csi.Driver as kubernetes.
type csiDriver struct{ *csi.Driver }

func newDriver(p *parts, m machine, db *meta.DB, state meta.State, log *logrus.Logger) kubernetes {
	s := m.set.csi
	return csiDriver{csi.New(csi.Config{
		Volumes: p.volumes, DB: db, Lend: p.credentials, Log: log, Now: m.at.clock(), Version: version, Node: s.node, Kubelet: s.kubelet,
		Wait: m.set.mountWait, Unready: func() error { return s.checkPropagation(m.at.data) },
		Observe: m.counters.CSI,
	}, state)}
}

func (d csiDriver) handlers(endpoint string) (calls, registration http.Handler) {
	return csi.Handler(d.Driver), csi.Registration(d.Driver, endpoint)
}
