package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kubelet calls the driver for Kubernetes over its socket, as far as tests of crashes and attacks
// need it. Package tests/csi has the real client and types.
type Kubelet struct{ Client *http.Client }

// DialKubelet returns the Kubelet of a socket, which need not exist yet.
func DialKubelet(socket string) *Kubelet {
	t := &http.Transport{
		Protocols: new(http.Protocols),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}
	t.Protocols.SetUnencryptedHTTP2(true)
	return &Kubelet{&http.Client{Transport: t}}
}

// Publish calls NodePublishVolume. An error that the driver answers is a *Refused.
func (k *Kubelet) Publish(ctx context.Context, volume, target string, attributes map[string]string) error {
	m := text(nil, 1, volume)
	m = text(m, 4, target)
	m = text(m, 5, string(text(nil, 2, ""))) // a filesystem
	for key, value := range attributes {
		m = text(m, 8, string(text(text(nil, 1, key), 2, value)))
	}
	return k.call(ctx, "NodePublishVolume", m)
}

// Unpublish calls NodeUnpublishVolume.
func (k *Kubelet) Unpublish(ctx context.Context, volume, target string) error {
	return k.call(ctx, "NodeUnpublishVolume", text(text(nil, 1, volume), 2, target))
}

func text(m []byte, field protowire.Number, value string) []byte {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), value)
}

// call sends a message and reads the status; the answers have nothing else.
func (k *Kubelet) call(ctx context.Context, method string, m []byte) error {
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://driver/csi.v1.Node/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	resp, err := k.Client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	switch code := resp.Trailer.Get("Grpc-Status"); code {
	case "0":
		return nil
	case "":
		return fmt.Errorf("%s: %s without a status of gRPC", method, resp.Status)
	default:
		words, err := url.PathUnescape(resp.Trailer.Get("Grpc-Message"))
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		return &Refused{fmt.Sprintf("code %s: %s", code, words)}
	}
}
