// Package doctor finds out why the plugin does not work, or less well than it could. It asks the plugin,
// which checks itself and its machine, and adds what only the outside sees: the engine, whether the
// plugin is enabled, the settings that the engine has for it, and the clocks.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/plugin"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/dial"
)

// Patient is what is examined.
type Patient struct {
	Engine client.APIClient
	Host   string // the engine's address
	Plugin string // the plugin's name or ID
	// Socket is set if the user named the admin socket, or no engine runs the plugin: then no engine is needed.
	Socket bool
	// Connect reaches the plugin.
	Connect func(ctx context.Context) (*api.Client, error)
	Now     func() time.Time
	// Remotes makes the plugin ask the hosts of repositories.
	Remotes bool
}

// engineTimeout bounds the questions to the engine.
const engineTimeout = 20 * time.Second

// Examine returns the results of all checks, those of the plugin after those of the engine. A check that
// needs one that failed is left out.
func (p Patient) Examine(ctx context.Context) []api.Check {
	var checks []api.Check
	var engine reading
	var installed plugin.Plugin
	if !p.Socket {
		var c api.Check
		if c, engine = p.engine(ctx); c.Status == api.Failed {
			return append(checks, c)
		}
		checks = append(checks, c)
		if c, installed = p.plugin(ctx); c.Status == api.Failed {
			return append(checks, c)
		}
		checks = append(checks, c)
	}
	c, err := p.Connect(ctx)
	if err != nil {
		return append(checks, failed("socket", err.Error(), p.whereLog()))
	}
	asked := p.Now()
	health, err := c.Health(ctx, p.Remotes)
	if err != nil {
		return append(checks, failed("socket", err.Error(), p.whereLog()))
	}
	answered := p.Now()
	settings, err := c.Settings(ctx)
	if err != nil {
		checks = append(checks, failed("settings", err.Error(), "see the plugin's log: docker repos logs"))
	}
	for _, check := range health.Checks {
		switch check.Name {
		case "clock":
			check = clock(check, health.Time, span{asked, answered}, engine)
		case "settings":
			check = differing(check, installed, settings)
		case "selinux":
			check = selinux(check, engine.Info, settings, p.Socket)
		}
		checks = append(checks, check)
	}
	return checks
}

// engineLog is where an engine's plugin says why it does not answer.
const engineLog = "see the engine's log: journalctl -u docker | grep plugin="

// whereLog says where a plugin that does not answer says why.
func (p Patient) whereLog() string {
	if p.Socket {
		return "see the log of what runs the plugin: journalctl -u helmdeck-repos for Podman, kubectl logs for Kubernetes, journalctl -u docker for an engine"
	}
	return engineLog
}

func ok(name, text string) api.Check { return api.Check{Name: name, Status: api.OK, Text: text} }

func failed(name, text, remedy string) api.Check {
	return api.Check{Name: name, Status: api.Failed, Text: text, Remedy: remedy}
}

// leastAPI is that of Docker Engine 20.10, the oldest that the plugin is tested with. An engine before
// flagsAPI gives a read-only mount other flags than the plugin's.
const leastAPI, flagsAPI = "1.41", "1.42"

// reading is what the engine answered, and when.
type reading struct {
	system.Info
	span
}

// engine checks the engine.
func (p Patient) engine(ctx context.Context) (api.Check, reading) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	version, err := p.Engine.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return failed("engine", err.Error(), "start the engine, or choose another one with --context"), reading{}
	}
	asked := p.Now()
	info, err := p.Engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return failed("engine", err.Error(), "see the engine's log"), reading{}
	}
	r := reading{info.Info, span{asked, p.Now()}}
	c := ok("engine", fmt.Sprintf("version %s, API %s, %s/%s at %s", version.Version, version.APIVersion, version.Os, version.Arch, p.Host))
	switch {
	case version.Os != "linux":
		return failed("engine", c.Text, "use an engine for Linux containers"), r
	case dial.HasOption(r.Info, "rootless"):
		return failed("engine", c.Text+", rootless", "use an engine that runs as root: the kernel gives a rootless one no overlay that the plugin can use"), r
	case older(version.APIVersion, leastAPI):
		c.Status, c.Remedy = api.Warning, "use Docker Engine 20.10 or newer: others are not tested"
	case older(version.APIVersion, flagsAPI):
		c.Status, c.Text = api.Warning, c.Text+", which mounts a volume with :ro without nosuid and nodev"
		c.Remedy = "use a newer engine; until then, give containers that mount what others have written with :ro " +
			"the options --security-opt no-new-privileges and --cap-drop MKNOD"
	}
	return c, r
}

// older compares two versions of the API, such as 1.41.
func older(a, b string) bool {
	var x, y [2]int
	fmt.Sscanf(a, "%d.%d", &x[0], &x[1])
	fmt.Sscanf(b, "%d.%d", &y[0], &y[1])
	return slices.Compare(x[:], y[:]) < 0
}

// plugin checks that the plugin is there and enabled.
func (p Patient) plugin(ctx context.Context) (api.Check, plugin.Plugin) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	found, err := p.Engine.PluginInspect(ctx, p.Plugin, client.PluginInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return failed("plugin", fmt.Sprintf("the engine has no plugin %q", p.Plugin),
			"install it with docker plugin install, or name with --plugin the one that docker plugin ls lists"), plugin.Plugin{}
	case err != nil:
		return failed("plugin", err.Error(), "see the engine's log"), plugin.Plugin{}
	case !found.Plugin.Enabled:
		return failed("plugin", found.Plugin.Name+" is disabled", "run docker plugin enable --timeout 120 "+found.Plugin.Name+
			"; if that fails, the engine's log says why: journalctl -u docker | grep plugin="), found.Plugin
	}
	return ok("plugin", fmt.Sprintf("%s is enabled, ID %.12s", found.Plugin.Name, found.Plugin.ID)), found.Plugin
}

// span is the time from a question to its answer.
type span struct{ asked, answered time.Time }

// off returns how far another clock was from ours, at least.
func (s span) off(other time.Time) time.Duration {
	switch {
	case other.Before(s.asked):
		return other.Sub(s.asked)
	case other.After(s.answered):
		return other.Sub(s.answered)
	}
	return 0
}

// maxOff is how far apart clocks may be. A remote's certificate or a token is rarely closer to its end.
const maxOff = time.Minute

// clock compares the clocks of this machine, the plugin and the engine.
func clock(c api.Check, plugin time.Time, read span, engine reading) api.Check {
	if c.Status == api.Failed {
		return c
	}
	whose, off := "plugin", read.off(plugin)
	if at, err := time.Parse(time.RFC3339Nano, engine.SystemTime); err == nil && off.Abs() <= maxOff {
		whose, off = "engine", engine.off(at)
	}
	if off.Abs() <= maxOff {
		return c
	}
	how := "ahead of"
	if off < 0 {
		how = "behind"
	}
	return failed(c.Name, fmt.Sprintf("the clock of the %s is %v %s this machine's", whose, off.Abs().Round(time.Second), how),
		"set the clock that is wrong, and keep both right with NTP")
}

// differing compares the settings that the engine has for its plugin with those in force. An empty one counts as unset.
func differing(c api.Check, installed plugin.Plugin, inForce []api.Setting) api.Check {
	var wrong []string
	for _, s := range inForce {
		for _, e := range installed.Settings.Env {
			name, value, _ := strings.Cut(e, "=")
			if name != s.Name || s.Hidden {
				continue
			}
			if value == "" {
				value = s.Default
			}
			if value != s.Value {
				wrong = append(wrong, fmt.Sprintf("%s is %q in the engine, and %q in force", name, value, s.Value))
			}
		}
	}
	if len(wrong) == 0 {
		return c
	}
	return failed(c.Name, strings.Join(wrong, "; "), fmt.Sprintf(
		"run docker plugin disable -f %[1]s, and then docker plugin enable --timeout 120 %[1]s; containers that run keep their files", installed.Name))
}

// selinux adds to the plugin's check whether the engine gives its containers SELinux labels.
func selinux(c api.Check, info system.Info, settings []api.Setting, blind bool) api.Check {
	context := ""
	for _, s := range settings {
		if s.Name == "SELINUX_CONTEXT" {
			context = s.Value
		}
	}
	switch {
	case blind || c.Status == api.Failed:
		return c
	case !dial.HasOption(info, "selinux"):
		if c.Status == api.Warning {
			return ok(c.Name, "the kernel runs with it, and the engine does not use it")
		}
		return c
	case context == "":
		return failed(c.Name, "the engine gives its containers SELinux labels, and SELINUX_CONTEXT is not set: they can't use their workspaces",
			"set SELINUX_CONTEXT=system_u:object_r:container_file_t:s0")
	}
	return c
}
