package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// HostPort is a server: a host name or an IP address without brackets, in lower
// case, and a port.
type HostPort struct{ Host, Port string }

// HostPortOf returns the server of an HTTP URL.
func HostPortOf(u *url.URL) HostPort {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return HostPort{Host: strings.ToLower(u.Hostname()), Port: port}
}

func (p HostPort) String() string { return net.JoinHostPort(p.Host, p.Port) }

// Rule applies to one volume.
type Rule struct {
	// Own is the volume's own server. It may be anywhere, because the user named it.
	Own HostPort
	// Lookup returns the addresses of a name; nil asks the machine's name servers.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// ErrInside means that a repository may not lead to a server.
var ErrInside = errors.New("a repository may not lead there: only the server of the volume's own URL may be at a loopback, private, link-local or reserved address")

// lookupTimeout bounds one DNS lookup, dialTimeout one attempt to connect.
const (
	lookupTimeout = 10 * time.Second
	dialTimeout   = 15 * time.Second
)

// Check returns the addresses of a server, or none for the volume's own server. It refuses
// a name if any of its addresses is not public.
func (r Rule) Check(ctx context.Context, p HostPort) ([]netip.Addr, error) {
	if p == r.Own {
		return nil, nil
	}
	addrs, err := r.lookup(ctx, p.Host)
	if err != nil {
		return nil, fmt.Errorf("look up %q: %w", p.Host, err)
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("look up %q: no address", p.Host)
	}
	for i, a := range addrs {
		a = a.Unmap()
		addrs[i] = a
		if !public(a) {
			return nil, fmt.Errorf("%s is at %s: %w", p, a, ErrInside)
		}
	}
	return addrs, nil
}

func (r Rule) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	if r.Lookup != nil {
		return r.Lookup(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// Dial connects to host:port. It is for http.Transport.DialContext.
func (r Rule) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := r.Check(ctx, HostPort{Host: strings.ToLower(host), Port: port})
	if err != nil {
		return nil, err
	}
	return DialPinned(ctx, network, address, addrs)
}

// DialPinned connects to the port of address at the first of addrs that answers. If addrs
// is empty it connects to address.
func DialPinned(ctx context.Context, network, address string, addrs []netip.Addr) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if len(addrs) == 0 {
		return d.DialContext(ctx, network, address)
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addrs {
		conn, err := d.DialContext(ctx, network, net.JoinHostPort(a.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// inside are the ranges without public servers (IANA's special-purpose address
// registries), and those that embed another address, which a nearby gateway could
// translate.
var inside = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
	"3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

// public reports whether a can be the address of a public server.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	return !slices.ContainsFunc(inside, func(p netip.Prefix) bool { return p.Contains(a) })
}
