package csi

import (
	"context"
	"maps"
	"net"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
)

// controller stands for the controller service, which the driver does not have: the suite
// makes its volumes there. They are those of an administrator.
type controller struct {
	csi.UnimplementedControllerServer
	attributes map[string]string
}

func (controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	return &csi.ControllerGetCapabilitiesResponse{Capabilities: []*csi.ControllerServiceCapability{{
		Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}},
	}}}, nil
}

func (c controller) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: r.Name, VolumeContext: c.attributes}}, nil
}

func (controller) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, nil
}

// identity passes what the suite asks of the controller on to the driver.
type identity struct {
	csi.UnimplementedIdentityServer
	csi.IdentityClient
}

func (i identity) GetPluginInfo(ctx context.Context, r *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return i.IdentityClient.GetPluginInfo(ctx, r)
}

func (i identity) GetPluginCapabilities(ctx context.Context, r *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return i.IdentityClient.GetPluginCapabilities(ctx, r)
}

func (i identity) Probe(ctx context.Context, r *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return i.IdentityClient.Probe(ctx, r)
}

// TestSanity runs the suite of the CSI project.
func TestSanity(t *testing.T) {
	w := newWorld(t)
	attributes := maps.Clone(w.request(aPod).VolumeContext)
	socket := filepath.Join(w.kubelet, "controller.sock")
	l, err := net.Listen("unix", socket)
	w.ok(err)
	server := grpc.NewServer()
	csi.RegisterControllerServer(server, controller{attributes: attributes})
	csi.RegisterIdentityServer(server, identity{IdentityClient: w.IdentityClient})
	go server.Serve(l) // ends with Stop
	t.Cleanup(server.Stop)

	config := sanity.NewTestConfig()
	config.Address, config.ControllerAddress = "unix:"+w.endpoint(), "unix:"+socket
	config.TargetPath, config.StagingPath = filepath.Join(w.kubelet, "pods", "sanity"), filepath.Join(w.kubelet, "staging")
	sanity.GinkgoTest(&config)
	gomega.RegisterFailHandler(ginkgo.Fail)
	suite, reporter := ginkgo.GinkgoConfiguration()
	// The other services are not the driver's.
	reporter.NoColor = true
	suite.SkipStrings = []string{"Controller Service", "Snapshot", "GroupController"}
	if !ginkgo.RunSpecs(t, "csi-sanity", suite, reporter) {
		t.Fail()
	}
	w.wantNothing()
}
