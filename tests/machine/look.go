package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// look finds out what the machine has. top is the checkout.
func look(top string) (state, error) {
	s := state{}
	skip, err := skipped(top)
	if err != nil {
		return nil, err
	}
	return s, errors.Join(s.links(), s.firewall(), s.forwarding(), s.mounts(), s.loops(), s.groups(), s.processes(top), s.files(top, skip))
}

// links adds the network interfaces, with their IPv4 addresses: those of IPv6 may be temporary.
func (s state) links() error {
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, link := range links {
		addresses, err := link.Addrs()
		if err != nil {
			return err
		}
		value := "down"
		if link.Flags&net.FlagUp != 0 {
			value = "up"
		}
		for _, a := range addresses {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil {
				value += " " + a.String()
			}
		}
		s.add("link", link.Name, value)
	}
	return nil
}

// counters matches what differs between two lists of the same rules.
var counters = regexp.MustCompile(`\[\d+:\d+\]|^#.*|counter packets \d+ bytes \d+`)

// firewall adds the rules of those programs that the machine has: Debian's package of the engine
// depends on iptables.
func (s state) firewall() error {
	for _, command := range [][]string{{"iptables-save"}, {"ip6tables-save"}, {"nft", "list", "ruleset"}} {
		if _, err := exec.LookPath(command[0]); err != nil {
			continue
		}
		out, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			return fmt.Errorf("%s: %w", command[0], err)
		}
		table := ""
		for line := range strings.Lines(string(out)) {
			line = strings.TrimSpace(counters.ReplaceAllString(strings.TrimSpace(line), ""))
			switch {
			case line == "" || line == "}" || line == "COMMIT":
			case strings.HasPrefix(line, "*") || strings.HasPrefix(line, "table "):
				table = strings.TrimSuffix(line, " {")
				s.add("firewall", command[0]+" "+table, "")
			default:
				s.add("firewall", command[0]+" "+table+" "+strings.TrimSuffix(line, " {"), "")
			}
		}
	}
	return nil
}

// forwarding adds the settings that an engine changes for its bridges.
func (s state) forwarding() error {
	for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding", "bridge/bridge-nf-call-iptables", "bridge/bridge-nf-call-ip6tables"} {
		data, err := os.ReadFile("/proc/sys/net/" + name)
		if err == nil {
			s.add("setting", "/proc/sys/net/"+name, strings.TrimSpace(string(data)))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (s state) mounts() error {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		s.add("mount", m.Mountpoint, m.FSType+" "+m.Source)
	}
	return nil
}

// loops adds the loop devices that are in use.
func (s state) loops() error {
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, p := range paths {
		if file, err := os.ReadFile(p); err == nil { // otherwise it was detached meanwhile
			s.add("loop device", strings.Split(p, "/")[3], strings.TrimSpace(string(file)))
		}
	}
	return nil
}

// groups adds the control groups, except those of a service manager, which come and go.
func (s state) groups() error {
	return filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case slices.Contains([]string{".slice", ".scope", ".service", ".mount", ".socket", ".swap"}, filepath.Ext(path)):
			return fs.SkipDir
		}
		s.add("control group", path, "")
		return nil
	})
}

// skipped returns the directories and files whose contents are no concern of the comparison.
func skipped(top string) ([]string, error) {
	out, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOTMPDIR").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	list := []string{
		filepath.Join(top, "build"), filepath.Join(top, ".git"),
		// Programs write these at any time.
		"/var/log", "/run/log", "/var/cache", "/var/spool", "/var/lib/systemd", "/var/lib/dhcp", "/var/lib/NetworkManager", "/var/lib/apt",
		"/run/systemd", "/run/udev", "/run/user", "/run/utmp", "/run/dbus", "/run/sudo",
		// The contents of the machine's own images and containers.
		"/var/lib/docker/overlay2", "/var/lib/docker/containers", "/var/lib/docker/buildkit", "/var/lib/containerd", "/var/lib/containers",
	}
	list = append(list, strings.Fields(string(bytes.TrimSpace(out)))...)
	// Those of Go's tools: telemetry, staticcheck.
	if dir, err := os.UserCacheDir(); err == nil {
		list = append(list, dir)
	}
	if dir, err := os.UserConfigDir(); err == nil {
		list = append(list, filepath.Join(dir, "go"))
	}
	return list, nil
}

// files adds the names of files in the directories where a test could leave some, and the sizes and
// times of those that no program changes in passing. It does not enter other filesystems.
func (s state) files(top string, skip []string) error {
	roots := map[string]bool{ // with sizes and times
		top: true, "/etc": true, "/usr": true, "/var": false, "/run": false, "/tmp": false, os.TempDir(): false, "/root": false, "/opt": false, "/srv": false,
	}
	if home, err := os.UserHomeDir(); err == nil {
		roots[home] = false
	}
	for root, exact := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			}
			_, inner := roots[path]
			if path != root && inner || slices.Contains(skip, path) || filepath.Dir(path) == os.TempDir() && !ofTestsName(d.Name()) {
				return skipIf(d)
			}
			info, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			} else if err != nil {
				return err
			}
			value := ""
			if exact && !info.IsDir() {
				value = fmt.Sprintf("%v, %d bytes, %s", info.Mode(), info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z"))
			}
			s[thing{"file", path}] = value
			if path != root && info.IsDir() && mounted(path) {
				return fs.SkipDir
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// ofTestsName reports whether tests or what they start may have made a file in the directory for temporary files,
// where every program of the machine makes some.
func ofTestsName(name string) bool {
	return slices.ContainsFunc([]string{"Test", "Fuzz", "Benchmark", "hd", "helmdeck", "containerd", "relay", "admin", "sshserver-"}, func(prefix string) bool {
		return strings.HasPrefix(name, prefix)
	})
}

func skipIf(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// mounted reports whether something is mounted at a directory.
func mounted(path string) bool {
	is, err := mountinfo.Mounted(path)
	return err == nil && is
}
