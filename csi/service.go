package csi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
)

// operations are the calls that Config.Observe is told of, by their methods.
var operations = map[string]string{spec.Node_NodePublishVolume_FullMethodName: "publish", spec.Node_NodeUnpublishVolume_FullMethodName: "unpublish"}

// Handler returns the services Identity and Node over gRPC. Its server must speak HTTP/2 without encryption.
func Handler(d *Driver) http.Handler {
	return d.serve(func(s grpc.ServiceRegistrar) {
		spec.RegisterIdentityServer(s, identity{Driver: d})
		spec.RegisterNodeServer(s, node{Driver: d})
	})
}

type identity struct {
	spec.UnimplementedIdentityServer
	*Driver
}

func (i identity) GetPluginInfo(context.Context, *spec.GetPluginInfoRequest) (*spec.GetPluginInfoResponse, error) {
	return &spec.GetPluginInfoResponse{Name: Name, VendorVersion: i.config.Version}, nil
}

// GetPluginCapabilities answers that there is no controller service and no topology.
func (identity) GetPluginCapabilities(context.Context, *spec.GetPluginCapabilitiesRequest) (*spec.GetPluginCapabilitiesResponse, error) {
	return &spec.GetPluginCapabilitiesResponse{}, nil
}

// Probe answers whether volumes can be published now.
func (i identity) Probe(context.Context, *spec.ProbeRequest) (*spec.ProbeResponse, error) {
	if i.config.Unready != nil {
		if err := i.config.Unready(); err != nil {
			return nil, failf(codes.FailedPrecondition, "%w", err)
		}
	}
	return &spec.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}

type node struct {
	spec.UnimplementedNodeServer
	*Driver
}

func (n node) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	return &spec.NodeGetInfoResponse{NodeId: n.config.Node}, nil
}

func (node) NodeGetCapabilities(context.Context, *spec.NodeGetCapabilitiesRequest) (*spec.NodeGetCapabilitiesResponse, error) {
	reply := &spec.NodeGetCapabilitiesResponse{}
	for _, c := range []spec.NodeServiceCapability_RPC_Type{
		spec.NodeServiceCapability_RPC_GET_VOLUME_STATS, spec.NodeServiceCapability_RPC_VOLUME_CONDITION,
	} {
		reply.Capabilities = append(reply.Capabilities, &spec.NodeServiceCapability{
			Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return reply, nil
}

func (n node) NodePublishVolume(ctx context.Context, r *spec.NodePublishVolumeRequest) (*spec.NodePublishVolumeResponse, error) {
	c, err := n.check(r)
	switch {
	case err == nil:
		err = n.publish(ctx, c)
	case n.isPublished(r):
		err = failf(codes.Unavailable, "%w", err) // another version made it; not final, because it is there
	}
	return &spec.NodePublishVolumeResponse{}, err
}

// isPublished reports whether the volume of a request is at its target already.
func (d *Driver) isPublished(r *spec.NodePublishVolumeRequest) bool {
	p, ok := d.publication(r.TargetPath)
	return ok && p.Volume == r.VolumeId && slices.Contains(d.config.Volumes.Leases(p.Volume), p.Lease)
}

// maxEntries bounds the attributes, and the secrets: a volume has some twenty. An entry of four bytes takes a hundred in
// memory, for as long as the call.
const maxEntries = 1000

// readOnly are the access modes without writers.
var readOnly = []spec.VolumeCapability_AccessMode_Mode{
	spec.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY, spec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY,
}

// check refuses a NodePublishVolume that can't be done.
func (d *Driver) check(r *spec.NodePublishVolumeRequest) (call, error) {
	target, err := d.targetOf(r.TargetPath)
	capability := r.VolumeCapability
	switch {
	case r.VolumeId == "":
		return call{}, failf(codes.InvalidArgument, "the request has no volume ID")
	case volume.CheckName(r.VolumeId) != nil:
		return call{}, failf(codes.InvalidArgument, "volumeHandle: %w", volume.CheckName(r.VolumeId))
	case err != nil:
		return call{}, err
	case len(r.VolumeContext) > maxEntries || len(r.Secrets) > maxEntries:
		return call{}, failf(codes.InvalidArgument, "the request has more than %d attributes or secrets", maxEntries)
	case capability == nil:
		return call{}, failf(codes.InvalidArgument, "the request has no volume capability")
	case capability.GetMount() == nil:
		return call{}, failf(codes.InvalidArgument, "volumeMode: Block is not supported: a checkout is a filesystem")
	case len(capability.GetMount().MountFlags) > 0:
		return call{}, failf(codes.InvalidArgument, "mountOptions are not supported: use readOnly and the volume's attributes")
	}
	asked, err := parseAttributes(r.VolumeContext)
	if err != nil {
		return call{}, err
	}
	// Without podInfoOnMount kubelet passes on what the pod's spec says of the pod, whose author
	// can't know its UID.
	if uid, _, _ := strings.Cut(target.Rel, "/"); uid != asked.pod.UID {
		return call{}, failf(codes.InvalidArgument, "the target path %.200q is not of the pod that kubelet names: set podInfoOnMount: true in the CSIDriver object %s", r.TargetPath, Name)
	}
	return call{
		request: asked, target: target, volume: r.VolumeId, secrets: r.Secrets,
		readOnly: r.Readonly || slices.Contains(readOnly, capability.GetAccessMode().GetMode()),
	}, nil
}

func (n node) NodeUnpublishVolume(ctx context.Context, r *spec.NodeUnpublishVolumeRequest) (*spec.NodeUnpublishVolumeResponse, error) {
	if r.VolumeId == "" {
		return nil, failf(codes.InvalidArgument, "the request has no volume ID")
	}
	target, err := n.targetOf(r.TargetPath)
	if err != nil {
		return nil, err
	}
	return &spec.NodeUnpublishVolumeResponse{}, n.unpublish(ctx, target, r.VolumeId)
}

// Registration returns the service that kubelet finds in its directory plugins_registry. It
// tells kubelet the driver's name and endpoint, a path as kubelet sees it.
func Registration(d *Driver, endpoint string) http.Handler {
	return d.serve(func(s grpc.ServiceRegistrar) {
		registration.RegisterRegistrationServer(s, registrar{Driver: d, endpoint: endpoint})
	})
}

type registrar struct {
	registration.UnimplementedRegistrationServer
	*Driver
	endpoint string
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: Name, Endpoint: r.endpoint, SupportedVersions: []string{"1.0.0"}}, nil
}

func (r registrar) NotifyRegistrationStatus(ctx context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if s.PluginRegistered {
		r.config.Log.WithContext(ctx).WithField("endpoint", r.endpoint).Info("kubelet has registered the driver")
	} else {
		const maxProblem = 1000
		r.config.Log.WithContext(ctx).WithField("error", origin.Clip(s.Error, maxProblem)).
			Error("kubelet has not registered the driver")
	}
	return &registration.RegistrationStatusResponse{}, nil
}
