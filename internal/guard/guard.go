// Package guard says which places on the network a repository may lead to.
//
// The plugin is on the host's network: what a repository names (a submodule, an
// LFS endpoint, where that one redirects to) must not reach what only this machine
// can. A caller may rely on this: an address that Check returns, and the one that
// Dial connects to, is a public one, or that of the volume's own server; every
// address of a name was looked at, and the one that is used is one of those, so
// that a second answer of the name servers changes nothing. It is safe for
// concurrent use.
package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Place is a server: a host name or an IP address without brackets, in lower
// case, and a port.
type Place struct{ Host, Port string }

// PlaceOf returns the place of an HTTP URL.
func PlaceOf(u *url.URL) Place {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return Place{Host: strings.ToLower(u.Hostname()), Port: port}
}

func (p Place) String() string { return net.JoinHostPort(p.Host, p.Port) }

// Rule is what holds for one volume.
type Rule struct {
	// Own is the volume's own server, which its user has named: it may be
	// anywhere.
	Own Place
	// Lookup returns the addresses of a name; nil asks the machine's name servers.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
}

// ErrInside says that a place is not one that a repository may lead to.
var ErrInside = errors.New("a repository may not lead there: only the server of the volume's own URL may be at a loopback, private, link-local or reserved address")

// lookupTimeout bounds one question to the name servers, and dialTimeout one try
// to connect.
const (
	lookupTimeout = 10 * time.Second
	dialTimeout   = 15 * time.Second
)

// Check returns the addresses of a place that may be connected to, and none for
// the volume's own. One address that is inside is enough to refuse the name.
func (r Rule) Check(ctx context.Context, p Place) ([]netip.Addr, error) {
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
		if !Public(a) {
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

// Dial connects to host:port, as http.Transport wants it.
func (r Rule) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := r.Check(ctx, Place{Host: strings.ToLower(host), Port: port})
	if err != nil {
		return nil, err
	}
	return DialPinned(ctx, network, address, addrs)
}

// DialPinned connects to the port of address at the first of addrs that answers;
// without any, to address itself.
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

// inside are the ranges that no public server has (IANA's special-purpose address
// registries), and those that carry another address in them, which a gateway
// beside us could unpack.
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

// Public reports whether an address can be a public server's.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	for _, p := range inside {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
