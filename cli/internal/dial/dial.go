// Package dial reaches the admin socket of the plugin: directly if this process can open it, otherwise
// through a relay that the engine runs.
package dial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"
)

// DefaultPlugin is the name under which the plugin is installed.
const DefaultPlugin = "helmdeck/repos"

// Sockets is where an engine has the sockets of its plugins, on its own machine. The directory belongs to
// root.
const Sockets = "/run/docker/plugins"

// Where a plugin that no engine runs has its admin socket: as Debian's service for Podman, and as the driver that a
// node's kubelet calls.
const (
	ofPodman  = "/run/helmdeck-repos/admin.sock"
	ofKubelet = "/var/lib/kubelet/plugins/repos.helmdeck.dev/admin.sock"
)

// Way is a way to the admin socket. Its methods may be called concurrently.
type Way interface {
	// Dial opens a connection to the admin socket.
	Dial(ctx context.Context) (net.Conn, error)
	// Claim returns the name of the user for the audit log, if the kernel shows somebody else to the
	// plugin: a relay runs as root. It is empty otherwise.
	Claim() string
	// Close ends all connections, and removes what the way needed.
	Close() error
}

// Relay starts a relay at an engine to the admin socket of the plugin with an ID.
type Relay func(ctx context.Context, engine client.APIClient, plugin string) (Way, error)

// Target says which admin socket to reach.
type Target struct {
	// Socket is the path of the admin socket. If it is not empty, the engine is not asked.
	Socket string
	// Plugin is the name or ID of the plugin. Empty means DefaultPlugin.
	Plugin string
	// Engine returns the client of the engine.
	Engine func() client.APIClient
	// Host is the address of the engine, such as unix:///var/run/docker.sock.
	Host string
	// Relay is used if this process can't open the socket. Without one, Open fails then.
	Relay Relay
}

// Open returns a way to the admin socket. The caller closes it. If this machine's engine does not answer or does not have
// the plugin, it is the way to the plugin that runs here without an engine, unless Plugin names one.
func Open(ctx context.Context, t Target) (Way, error) {
	if t.Socket != "" {
		return direct{socket: t.Socket}, nil
	}
	local := strings.HasPrefix(t.Host, "unix://")
	if path := ofDriver(os.Getenv("CSI_ENDPOINT")); path != "" && local && t.isDefault() {
		return direct{socket: path, service: true}, nil
	}
	id, err := t.plugin(ctx)
	if err != nil && local {
		return t.withoutEngine(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	if local {
		way := direct{socket: filepath.Join(Sockets, id, "admin.sock")}
		conn, err := way.Dial(ctx)
		if err == nil {
			return way, conn.Close()
		}
		// The engine can have its sockets elsewhere, even on another machine, as Docker Desktop has.
		if t.Relay == nil || !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if t.Relay == nil {
		return nil, fmt.Errorf("the engine at %s is on another machine", t.Host)
	}
	return t.Relay(ctx, t.Engine(), id)
}

// withoutEngine is Open where this machine's engine did not name the plugin, for the reason err.
func (t Target) withoutEngine(ctx context.Context, err error) (Way, error) {
	gone := client.IsErrConnectionFailed(err)
	if _, none := errors.AsType[*noPluginError](err); !gone && !none || !t.isDefault() {
		return nil, err
	}
	found := existing(ofPodman, ofKubelet)
	if path := t.only(Sockets); path != "" && gone {
		// The plugin outlives an engine with live-restore, and its socket outlives the plugin.
		way := direct{socket: path}
		if conn, err := way.Dial(ctx); err == nil {
			return way, conn.Close()
		} else if len(found) == 0 {
			return nil, err
		}
	}
	switch len(found) {
	case 0:
		return nil, err
	case 1:
		return direct{socket: found[0], service: true}, nil
	default:
		return nil, fmt.Errorf("plugins run here without an engine: name one of them with --socket: %s", strings.Join(found, ", "))
	}
}

// isDefault reports whether the user named no other plugin.
func (t Target) isDefault() bool { return t.Plugin == "" || t.Plugin == DefaultPlugin }

// ofDriver returns the admin socket of the driver for Kubernetes if this process is in its container: it has the driver's
// setting CSI_ENDPOINT then. It is empty otherwise.
func ofDriver(endpoint string) string {
	if endpoint == "" {
		return ""
	}
	if found := existing(filepath.Join(filepath.Dir(strings.TrimPrefix(endpoint, "unix://")), "admin.sock")); len(found) > 0 {
		return found[0]
	}
	return ""
}

// existing returns the paths that are sockets.
func existing(paths ...string) []string {
	return slices.DeleteFunc(paths, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.Mode().Type() != fs.ModeSocket
	})
}

// IsService reports whether a way leads to a plugin that no engine runs.
func IsService(w Way) bool {
	d, ok := w.(direct)
	return ok && d.service
}

// noPluginError means that the engine has no plugin of that name.
type noPluginError struct{ name string }

func (e *noPluginError) Error() string {
	return fmt.Sprintf("the engine has no plugin %q: --plugin names another one, --socket a socket", e.name)
}

// plugin returns the ID of the plugin, if it is enabled.
func (t Target) plugin(ctx context.Context) (id string, err error) {
	name := t.Plugin
	if name == "" {
		name = DefaultPlugin
	}
	found, err := t.Engine().PluginInspect(ctx, name, client.PluginInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return "", &noPluginError{name}
	case err != nil:
		return "", err
	case !found.Plugin.Enabled:
		return "", fmt.Errorf("the plugin %q is disabled: enable it with: docker plugin enable --timeout 120 %s", name, found.Plugin.Name)
	case found.Plugin.ID == "" || strings.ContainsAny(found.Plugin.ID, "./"): // it becomes a part of a path
		return "", fmt.Errorf("the engine answers with the plugin ID %.80q, which is none", found.Plugin.ID)
	}
	return found.Plugin.ID, nil
}

// only returns the one admin socket below dir, which needs no engine. It is the empty string if there are
// none or several, and if another plugin than the default is meant: a socket does not tell the name of
// its plugin.
func (t Target) only(dir string) string {
	if !t.isDefault() {
		return ""
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*", "admin.sock"))
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// HasOption reports whether an engine has a security option, such as selinux.
func HasOption(engine system.Info, option string) bool {
	return slices.ContainsFunc(engine.SecurityOptions, func(o string) bool {
		name, _, _ := strings.Cut(o, ",")
		return name == "name="+option
	})
}

// direct is the way of a process that can open the socket itself.
type direct struct {
	socket  string
	service bool // no engine runs the plugin
}

func (d direct) Dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", d.socket)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nobody listens on %s: the plugin has stopped", d.socket)
	}
	return conn, err
}

func (direct) Claim() string { return "" }
func (direct) Close() error  { return nil }
