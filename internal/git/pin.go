package git

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/helmdeck/repos/internal/guard"
)

// pinConfig returns the configuration that makes git connect to remote's host only at the
// addresses in pin. Behind a proxy it has no effect, because the proxy connects.
func pinConfig(remote string, pin []netip.Addr) ([]string, error) {
	if len(pin) == 0 || isSSH(remote) {
		return nil, nil
	}
	u, err := url.Parse(remote)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%s: a %s connection can't be pinned to an address: use https", remote, u.Scheme)
	}
	list := make([]string, len(pin))
	for i, a := range pin {
		list[i] = a.String()
		if a.Is6() {
			list[i] = "[" + list[i] + "]"
		}
	}
	host := u.Hostname()
	if strings.Contains(host, ":") {
		return nil, nil // an address already
	}
	return []string{"http.curloptResolve", host + ":" + guard.PlaceOf(u).Port + ":" + strings.Join(list, ",")}, nil
}

// pinSSH returns the options that make ssh connect to the first address in pin, and still
// verify the key by the host's name.
func pinSSH(remote string, pin []netip.Addr) string {
	if len(pin) == 0 {
		return ""
	}
	return fmt.Sprintf(" -o HostName=%s -o 'HostKeyAlias=%s'", pin[0], knownAs(sshHost(remote)))
}

// pinDial returns the dial function of an HTTP client: it connects to u's host only at
// the addresses in pin, and to other hosts (proxies) as usual. Nil means the default.
func pinDial(u *url.URL, pin []netip.Addr) func(ctx context.Context, network, address string) (net.Conn, error) {
	if len(pin) == 0 {
		return nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, _, err := net.SplitHostPort(address); err != nil || host != u.Hostname() {
			return guard.DialPinned(ctx, network, address, nil)
		}
		return guard.DialPinned(ctx, network, address, pin)
	}
}
