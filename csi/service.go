package csi

import (
	"context"
	"net/http"

	"github.com/helmdeck/repos/internal/volume"
)

const (
	identity = "/csi.v1.Identity/"
	node     = "/csi.v1.Node/"
)

// Handler returns the services Identity and Node over gRPC.
func Handler(d *Driver) http.Handler {
	return serve(d.Log, map[string]method{
		identity + "GetPluginInfo":         d.pluginInfo,
		identity + "GetPluginCapabilities": none, // no controller service, no topology
		identity + "Probe":                 d.probe,
		node + "NodeGetInfo":               d.nodeInfo,
		node + "NodeGetCapabilities":       nodeCapabilities,
		node + "NodePublishVolume":         d.nodePublish,
		node + "NodeUnpublishVolume":       d.nodeUnpublish,
		node + "NodeGetVolumeStats":        d.volumeStats,
	})
}

func none(context.Context, []byte) (message, error) { return nil, nil }

func (d *Driver) pluginInfo(context.Context, []byte) (message, error) {
	return message{}.text(1, Name).text(2, d.Version), nil
}

// probe answers whether volumes can be published now.
func (d *Driver) probe(context.Context, []byte) (message, error) {
	if d.Unready != nil {
		if err := d.Unready(); err != nil {
			return nil, failf(FailedPrecondition, "%w", err)
		}
	}
	return message{}.message(1, message{}.flag(1, true)), nil
}

func (d *Driver) nodeInfo(context.Context, []byte) (message, error) {
	return message{}.text(1, d.Node), nil
}

// The capabilities of NodeGetCapabilities.
const (
	getVolumeStats  = 2
	volumeCondition = 4
)

func nodeCapabilities(context.Context, []byte) (m message, err error) {
	for _, c := range []int64{getVolumeStats, volumeCondition} {
		m = m.message(1, message{}.message(1, message{}.number(1, c)))
	}
	return m, nil
}

func (d *Driver) nodePublish(ctx context.Context, request []byte) (message, error) {
	r, err := parsePublish(request)
	if err != nil {
		return nil, failf(InvalidArgument, "%w", err)
	}
	c, err := d.check(r)
	if err != nil {
		return nil, err
	}
	return nil, d.publish(ctx, c)
}

// check refuses a NodePublishVolume that can't be done.
func (d *Driver) check(r publishRequest) (call, error) {
	target, err := d.targetOf(r.target)
	switch {
	case r.volume == "":
		return call{}, failf(InvalidArgument, "the request has no volume ID")
	case volume.CheckName(r.volume) != nil:
		return call{}, failf(InvalidArgument, "volumeHandle: %w", volume.CheckName(r.volume))
	case err != nil:
		return call{}, err
	case !r.capability.given:
		return call{}, failf(InvalidArgument, "the request has no volume capability")
	case r.capability.block || !r.capability.mount:
		return call{}, failf(InvalidArgument, "volumeMode: Block is not supported: a checkout is a filesystem")
	case r.capability.mountFlags > 0:
		return call{}, failf(InvalidArgument, "mountOptions are not supported: use readOnly and the volume's attributes")
	}
	asked, err := parseAttributes(r.attributes)
	if err != nil {
		return call{}, err
	}
	return call{
		request: asked, target: target, volume: r.volume, readOnly: r.readOnly || r.capability.readOnly, secrets: r.secrets,
	}, nil
}

func (d *Driver) nodeUnpublish(ctx context.Context, request []byte) (message, error) {
	r, err := parseVolume(request)
	if err != nil {
		return nil, failf(InvalidArgument, "%w", err)
	}
	if r.volume == "" {
		return nil, failf(InvalidArgument, "the request has no volume ID")
	}
	target, err := d.targetOf(r.path)
	if err != nil {
		return nil, err
	}
	return nil, d.unpublish(ctx, target, r.volume)
}

// Registration returns the service that kubelet finds in its directory plugins_registry. It
// tells kubelet the driver's name and endpoint, a path as kubelet sees it.
func Registration(d *Driver, endpoint string) http.Handler {
	const service = "/pluginregistration.Registration/"
	return serve(d.Log, map[string]method{
		service + "GetInfo": func(context.Context, []byte) (message, error) {
			return message{}.text(1, "CSIPlugin").text(2, Name).text(3, endpoint).text(4, "1.0.0"), nil
		},
		service + "NotifyRegistrationStatus": func(ctx context.Context, request []byte) (message, error) {
			registered, problem, err := parseRegistered(request)
			switch {
			case err != nil:
				return nil, failf(InvalidArgument, "%w", err)
			case registered:
				d.Log.WithContext(ctx).WithField("endpoint", endpoint).Info("kubelet has registered the driver")
			default:
				d.Log.WithContext(ctx).WithField("error", problem).Error("kubelet has not registered the driver")
			}
			return nil, nil
		},
	})
}
