package guard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestPublic(t *testing.T) {
	for _, tt := range []struct {
		addr string
		want bool
	}{
		{"140.82.112.3", true},
		{"2606:50c0:8000::153", true},
		{"172.32.0.1", true},
		{"100.128.0.1", true},
		{"::ffff:140.82.112.3", true},
		{"127.0.0.1", false},
		{"127.255.255.254", false},
		{"0.0.0.0", false},
		{"10.1.2.3", false},
		{"172.16.0.1", false},
		{"172.31.255.255", false},
		{"192.168.1.1", false},
		{"169.254.169.254", false},
		{"100.64.0.1", false},
		{"100.100.100.200", false},
		{"224.0.0.1", false},
		{"255.255.255.255", false},
		{"198.18.0.1", false},
		{"::", false},
		{"::1", false},
		{"::7f00:1", false},
		{"::ffff:127.0.0.1", false},
		{"::ffff:169.254.169.254", false},
		{"64:ff9b::7f00:1", false},
		{"2002:7f00:1::", false},
		{"fe80::1", false},
		{"fd00:ec2::254", false},
		{"ff02::1", false},
		{"fec0::1", false},
	} {
		if got := public(netip.MustParseAddr(tt.addr)); got != tt.want {
			t.Errorf("Public(%s) = %v, want %v", tt.addr, got, tt.want)
		}
	}
}

func TestCheck(t *testing.T) {
	names := map[string][]string{
		"public.example":   {"140.82.112.3", "2606:50c0:8000::153"},
		"internal.example": {"10.0.0.1"},
		"both.example":     {"140.82.112.3", "127.0.0.1"},
		"mapped.example":   {"::ffff:10.0.0.1"},
		"empty.example":    {},
	}
	r := Rule{
		Own: HostPort{"git.internal", "3000"},
		Lookup: func(_ context.Context, host string) (addrs []netip.Addr, err error) {
			list, ok := names[host]
			if !ok {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			for _, a := range list {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			return addrs, nil
		},
	}
	for _, tt := range []struct {
		host, port string
		want       string // the addresses, or what the error says
		inside     bool
	}{
		{"public.example", "443", "140.82.112.3 2606:50c0:8000::153", false},
		{"140.82.112.3", "443", "140.82.112.3", false},
		{"git.internal", "3000", "", false},
		{"git.internal", "22", "no such host", false},
		{"internal.example", "443", "10.0.0.1", true},
		{"both.example", "443", "127.0.0.1", true},
		{"mapped.example", "443", "10.0.0.1", true},
		{"empty.example", "443", "no address", false},
		{"127.0.0.1", "3000", "127.0.0.1", true},
		{"::1", "80", "::1", true},
		{"2130706433", "80", "no such host", false},
		{"0x7f.1", "80", "no such host", false},
		{"missing.example", "443", "no such host", false},
	} {
		addrs, err := r.Check(t.Context(), HostPort{tt.host, tt.port})
		if errors.Is(err, ErrInside) != tt.inside {
			t.Errorf("Check(%s:%s): error %v, want ErrInside %v", tt.host, tt.port, err, tt.inside)
		}
		var got []string
		for _, a := range addrs {
			got = append(got, a.String())
		}
		if err != nil {
			if len(addrs) > 0 || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Check(%s:%s) = %v, %v, want an error with %q", tt.host, tt.port, addrs, err, tt.want)
			}
		} else if !slices.Equal(got, strings.Fields(tt.want)) {
			t.Errorf("Check(%s:%s) = %v, want %q", tt.host, tt.port, got, tt.want)
		}
	}
}

func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	own := Rule{Own: HostPort{"127.0.0.1", port}}
	conn, err := own.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Errorf("dial the volume's own server: %v", err)
	} else {
		conn.Close()
	}
	other := Rule{Own: HostPort{"127.0.0.1", "1"}}
	if conn, err := other.Dial(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, ErrInside) {
		t.Errorf("dial another server inside: %v, %v, want ErrInside", conn, err)
	}
	// The name is not looked up: it does not exist.
	conn, err = DialPinned(t.Context(), "tcp", net.JoinHostPort("pinned.invalid", port), []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	if err != nil {
		t.Errorf("dial a pinned name: %v", err)
	} else {
		conn.Close()
	}
}
