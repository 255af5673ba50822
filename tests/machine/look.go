package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// patterns are the names of what tests make outside of the checkout, and of what the programs that they start make
// there.
func patterns() []string {
	temp := os.TempDir()
	return []string{
		"/var/tmp/hd-*", "/var/tmp/helmdeck-*", "/var/tmp/release-*", "/run/hd-*",
		"/dev/shm/helmdeck-*", "/dev/shm/replica*", "/dev/shm/checkpoints*",
		filepath.Join(temp, "hd-*"), filepath.Join(temp, "helmdeck-*"), filepath.Join(temp, "sshserver-*"),
	}
}

// bridges are the interfaces of the machine's engine, which an engine of a test deletes or makes if it is in the
// machine's network namespace.
var bridges = []string{"docker0", "docker_gwbridge"}

// look finds out what the machine has that tests could have made, or deleted. top is the checkout.
func look(top string) (state, error) {
	s := state{}
	return s, errors.Join(s.links(), s.mounts(top), s.loops(top), s.groups(), s.processes(top), s.directories(), s.checkout(top))
}

func (s state) links() error {
	for _, name := range bridges {
		link, err := net.InterfaceByName(name)
		if err != nil {
			continue // there is none: net has no error of its own for that
		}
		addresses, err := link.Addrs()
		if err != nil {
			return err
		}
		value := ""
		for _, a := range addresses {
			if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil { // those of IPv6 may be temporary
				value += " " + a.String()
			}
		}
		s.add("link", name, strings.TrimSpace(value))
	}
	return nil
}

func (s state) mounts(top string) error {
	mounts, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if traced(m.Mountpoint+"\n"+m.Source, top) {
			s.add("mount", m.Mountpoint, m.FSType+" "+m.Source)
		}
	}
	return nil
}

func (s state) loops(top string) error {
	paths, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return err
	}
	for _, p := range paths {
		// Without an error, unless the device was detached meanwhile.
		if file, err := os.ReadFile(p); err == nil && traced(string(file), top) {
			s.add("loop device", strings.Split(p, "/")[3], strings.TrimSpace(string(file)))
		}
	}
	return nil
}

// groups adds the control groups of tests.
func (s state) groups() error {
	return filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), "hd-") {
			s.add("control group", path, "")
			return fs.SkipDir
		}
		return nil
	})
}

func (s state) directories() error {
	for _, pattern := range patterns() {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range paths {
			s[thing{"file", path}] = ""
		}
	}
	return nil
}

// checkout adds the files of the checkout, but for those of build and git.
func (s state) checkout(top string) error {
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path == filepath.Join(top, "build") || path == filepath.Join(top, ".git"):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			s[thing{"file", path}] = ""
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		s[thing{"file", path}] = fmt.Sprintf("%v, %d bytes, %s", info.Mode(), info.Size(), info.ModTime().UTC().Format("2006-01-02T15:04:05.000000000Z"))
		return nil
	})
}
