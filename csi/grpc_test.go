package csi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/helmdeck/repos/internal/admin/metrics"
	"github.com/helmdeck/repos/internal/intake"
	"github.com/helmdeck/repos/tests/wait"
)

// serveHandler serves a handler as the plugin does, and returns the socket. The context is that of all requests.
func serveHandler(t *testing.T, ctx context.Context, h http.Handler) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "csi.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler: intake.Handler(h), BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: intake.WithConn,
		Protocols: new(http.Protocols),
	}
	s.Protocols.SetUnencryptedHTTP2(true)
	go s.Serve(intake.Listener{Listener: l})
	t.Cleanup(func() { s.Close() })
	return socket
}

func dial(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// wantStatus checks the code of an answer, and that its text has words.
func wantStatus(t *testing.T, what string, err error, code codes.Code, words string) {
	t.Helper()
	if s := status.Convert(err); s.Code() != code || !strings.Contains(s.Message(), words) {
		t.Errorf("%s: %v, want %v and %q", what, err, code, words)
	}
}

// TestStopping: kubelet calls again when the driver stops, so the code is not final. Control: a caller that gives up
// gets no such answer.
func TestStopping(t *testing.T) {
	t.Parallel()
	for _, stop := range []bool{true, false} {
		ctx, interrupt := context.WithCancelCause(t.Context())
		d := newDriver(t, &volumes{})
		arrived, ended := make(chan struct{}), make(chan error)
		socket := serveHandler(t, ctx, d.serve(func(s grpc.ServiceRegistrar) {
			spec.RegisterNodeServer(s, &slowNode{arrived: arrived, ended: ended})
		}))
		call, giveUp := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := spec.NewNodeClient(dial(t, socket)).NodeGetInfo(call, &spec.NodeGetInfoRequest{})
			done <- err
		}()
		<-arrived
		want, code := errors.New("the driver stops"), codes.Unavailable
		if stop {
			interrupt(want)
		} else {
			want, code = context.Canceled, codes.Canceled
			giveUp()
		}
		if err := <-ended; !errors.Is(err, want) {
			t.Errorf("the call ended with %v, want %v", err, want)
		}
		wantStatus(t, "the answer", <-done, code, want.Error())
		giveUp()
		interrupt(nil)
	}
}

// slowNode is a service whose NodeGetInfo ends with its context, and whose NodeGetCapabilities panics.
type slowNode struct {
	spec.UnimplementedNodeServer
	arrived chan struct{}
	ended   chan error
}

func (n *slowNode) NodeGetInfo(ctx context.Context, _ *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	close(n.arrived)
	<-ctx.Done()
	n.ended <- context.Cause(ctx)
	return nil, ctx.Err()
}

func (n *slowNode) NodePublishVolume(context.Context, *spec.NodePublishVolumeRequest) (*spec.NodePublishVolumeResponse, error) {
	panic("as a test")
}

// TestAnswers checks codes and texts of calls that get no further than this package, and what is observed.
func TestAnswers(t *testing.T) {
	t.Parallel()
	d := newDriver(t, &volumes{})
	var observed []string
	d.config.Observe = func(operation, code string) { observed = append(observed, operation+" "+code) }
	d.config.Unready = func() error { return errors.New("100 % „unready“\n" + strings.Repeat("x", 2*maxText)) }
	c := dial(t, serveHandler(t, t.Context(), Handler(d)))
	_, err := spec.NewIdentityClient(c).Probe(t.Context(), &spec.ProbeRequest{})
	wantStatus(t, "an error that is long, and not ASCII", err, codes.FailedPrecondition, "100 % „unready“\nxxx")
	if text := status.Convert(err).Message(); len(text) > maxText {
		t.Errorf("the text of an error has %d bytes", len(text))
	}
	n := spec.NewNodeClient(c)
	_, err = n.NodeStageVolume(t.Context(), &spec.NodeStageVolumeRequest{})
	wantStatus(t, "a method that the driver has not", err, codes.Unimplemented, "NodeStageVolume")
	wantStatus(t, "an unknown method", c.Invoke(t.Context(), "/csi.v1.Node/Nothing", &spec.ProbeRequest{}, &spec.ProbeResponse{}), codes.Unimplemented, "Nothing")
	wantStatus(t, "reflection", c.Invoke(t.Context(), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &spec.ProbeRequest{}, &spec.ProbeResponse{}), codes.Unimplemented, "")
	_, err = n.NodeUnpublishVolume(t.Context(), &spec.NodeUnpublishVolumeRequest{})
	wantStatus(t, "nothing", err, codes.InvalidArgument, "the request has no volume ID")

	// An entry of four bytes takes a hundred in memory, so a message can't have as many as fit into it.
	many := map[string]string{}
	for i := range maxEntries + 1 {
		many[fmt.Sprint(kubeletPrefix, i)] = ""
	}
	target := filepath.Join(d.pods(), "uid/v/mount")
	for _, r := range []*spec.NodePublishVolumeRequest{
		{VolumeId: "v", TargetPath: target, VolumeContext: many}, {VolumeId: "v", TargetPath: target, Secrets: many},
	} {
		_, err = n.NodePublishVolume(t.Context(), r)
		wantStatus(t, "many entries", err, codes.InvalidArgument, "more than 1000")
	}
	_, err = n.NodePublishVolume(t.Context(), &spec.NodePublishVolumeRequest{VolumeId: strings.Repeat("x", maxMessage)})
	wantStatus(t, "a large request", err, codes.ResourceExhausted, "")
	if want := "unpublish invalid_argument, publish invalid_argument, publish invalid_argument"; strings.Join(observed, ", ") != want {
		t.Errorf("observed %q", observed)
	}

	n = spec.NewNodeClient(dial(t, serveHandler(t, t.Context(), d.serve(func(s grpc.ServiceRegistrar) { spec.RegisterNodeServer(s, &slowNode{}) }))))
	_, err = n.NodePublishVolume(t.Context(), &spec.NodePublishVolumeRequest{})
	wantStatus(t, "a panic", err, codes.Unavailable, "internal error")
	if last := observed[len(observed)-1]; last != "publish unavailable" {
		t.Errorf("observed %q", last)
	}
}

// TestHostileBodies checks requests that no library for gRPC sends.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	socket := serveHandler(t, t.Context(), Handler(newDriver(t, &volumes{})))
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	for name, tt := range map[string]struct {
		body io.Reader
		want codes.Code
	}{
		"a message":       {strings.NewReader("\x00\x00\x00\x00\x00"), codes.OK},
		"unknown fields":  {strings.NewReader("\x00\x00\x00\x00\x03\xe8\x04\x01"), codes.OK},
		"half a field":    {strings.NewReader("\x00\x00\x00\x00\x03\x0a\x05x"), codes.Internal},
		"no tag":          {strings.NewReader("\x00\x00\x00\x00\x01\xff"), codes.Internal},
		"nothing":         {strings.NewReader(""), codes.Unknown},
		"half a head":     {strings.NewReader("\x00\x00"), codes.Unknown},
		"half a message":  {strings.NewReader("\x00\x00\x00\x00\x05abc"), codes.Unknown},
		"a compressed":    {strings.NewReader("\x01\x00\x00\x00\x03abc"), codes.Internal},
		"a huge":          {strings.NewReader("\x00\xff\xff\xff\xffabc"), codes.ResourceExhausted},
		"one that claims": {strings.NewReader("\x00\x00\x03\xff\xffabc"), codes.Unknown},
		"an endless one":  {endless{}, codes.OK},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Most(t))
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://x/csi.v1.Identity/GetPluginInfo", io.NopCloser(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc")
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			cancel()
			continue
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		text := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status")
		if got, err := strconv.Atoi(text); err != nil || codes.Code(got) != tt.want {
			t.Errorf("%s: status %q (%s%s), want %d", name, text, resp.Trailer.Get("Grpc-Message"), resp.Header.Get("Grpc-Message"), tt.want)
		}
		cancel()
	}
}

// endless is an empty message, and then others without end.
type endless struct{}

func (endless) Read(data []byte) (int, error) {
	clear(data)
	return len(data), nil
}

// TestCodes checks that the counters begin with all codes that the driver answers.
func TestCodes(t *testing.T) {
	t.Parallel()
	if len(metrics.Codes) != len(codeNames) {
		t.Errorf("the counters have %q", metrics.Codes)
	}
	for _, name := range metrics.Codes {
		var found bool
		for _, known := range codeNames {
			found = found || known == name
		}
		if !found {
			t.Errorf("no code is %q", name)
		}
	}
}
