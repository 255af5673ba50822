package crash

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/helmdeck/repos/tests/daemon"
)

// kubelet calls the driver for Kubernetes over its socket, which need not exist yet. An error that the driver answers is a
// *daemon.Refused.
type kubelet struct{ *grpc.ClientConn }

func dialKubelet(socket string) (kubelet, error) {
	c, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return kubelet{c}, err
}

// publish calls NodePublishVolume.
func (k kubelet) publish(ctx context.Context, volume, target string, attributes map[string]string) error {
	_, err := csi.NewNodeClient(k).NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: volume, TargetPath: target, VolumeContext: attributes,
		VolumeCapability: &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}},
	})
	return refused(err)
}

// unpublish calls NodeUnpublishVolume.
func (k kubelet) unpublish(ctx context.Context, volume, target string) error {
	_, err := csi.NewNodeClient(k).NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: target})
	return refused(err)
}

// refused tells the driver's answers from the client's own errors, such as those of a connection that ends.
func refused(err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.OK:
		return nil
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.Unknown:
		return err
	}
	return &daemon.Refused{Message: s.String()}
}
