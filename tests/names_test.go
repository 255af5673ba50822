package tests

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/wait"
)

// The machine gets other name servers and other host names while the plugin runs: files in /etc are
// replaced by rename, removed, and become links. The plugin uses the new ones without a restart, and
// containers go on.
func TestNames(t *testing.T) { // not parallel, because it puts another dockerd into PATH
	if testing.Short() {
		t.Skip("it takes long")
	}
	etc := ownEtc(t)
	office, vpn := serveNames(t, "127.0.0.53", nil), serveNames(t, "127.0.0.54", net.IPv4(127, 0, 0, 1))
	replace := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	resolv, hosts := filepath.Join(etc, "resolv.conf"), filepath.Join(etc, "hosts")
	if err := os.RemoveAll(resolv); err != nil { // it may be a link
		t.Fatal(err)
	}
	replace(resolv, "nameserver "+office+"\n")
	replace(hosts, "127.0.0.1 localhost\n")

	e, r := own(t, nil), newRemote(t)
	at := func(host string) string { return strings.Replace(r.url, "127.0.0.1", host, 1) }
	// mounted mounts the repository for a subject of its own, so that it is asked and fetched.
	tried := 0
	mounted := func(host string, options ...string) error {
		tried++
		options = append([]string{"repo=" + at(host), "refresh=always", fmt.Sprint("subject=", tried)}, options...)
		_, err := e.Try("run", "--rm", "--network", "none", "--mount", mount("", options...), image, "cat", "/w/README.md")
		return err
	}
	names := func() string {
		t.Helper()
		cmd := exec.Command("../build/docker-repos", "--socket", "/run/docker/plugins/"+e.Plugin+"/admin.sock", "doctor", "--format", "{{.Name}} {{.Status}} {{.Detail}}")
		out, _ := cmd.Output() // the code is 1 if another check has failed
		for line := range strings.Lines(string(out)) {
			if strings.HasPrefix(line, "names ") {
				return strings.TrimSpace(line)
			}
		}
		t.Fatalf("no check of names in %q", out)
		return ""
	}
	want := func(what, part string) {
		t.Helper()
		wait.For(t, what, func() error {
			if got := names(); !strings.Contains(got, part) {
				return fmt.Errorf("got %q, want %q", got, part)
			}
			return nil
		})
	}

	running := e.docker(t, "run", "--detach", "--network", "none", "--mount", mount("", "repo="+r.url, "subject=running"), image, "sleep", "1000000")
	pid := e.pluginPID(t, 0)
	if err := mounted("git.lan"); err == nil || !strings.Contains(err.Error(), "host unknown") {
		t.Fatalf("before: %v", err)
	}
	want("before", "names ok they are looked up at "+office)

	replace(resolv, "nameserver "+vpn+"\n")
	wait.For(t, "a new name server", func() error { return mounted("git.lan") })
	want("a new name server", "names ok they are looked up at "+vpn)
	if err := mounted("git.lan", "filter=blob:none"); err != nil { // git itself fetches
		t.Error(err)
	}

	if err := os.Remove(resolv); err != nil {
		t.Fatal(err)
	}
	want("no file", "names warning they are looked up at "+vpn+"; /etc/resolv.conf is that of")
	if err := mounted("git.lan"); err != nil {
		t.Errorf("without the file, by the last copy: %v", err)
	}

	run, err := os.MkdirTemp("/run", "hd-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	for name, server := range map[string]string{"office": office, "vpn": vpn} {
		replace(filepath.Join(run, name), "nameserver "+server+"\n")
	}
	for _, name := range []string{"office", "vpn"} {
		if err := os.Symlink(filepath.Join(run, name), resolv+".new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(resolv+".new", resolv); err != nil {
			t.Fatal(err)
		}
		want("a link to the file of "+name, "names ok they are looked up at "+map[string]string{"office": office, "vpn": vpn}[name])
	}
	wait.For(t, "a link", func() error { return mounted("git.lan") })

	replace(resolv, "nameserver "+office+"\n")
	replace(hosts, "127.0.0.1 localhost hosts.lan\n")
	wait.For(t, "a new host", func() error { return mounted("hosts.lan") })

	if now := e.pluginPID(t, 0); now != pid {
		t.Errorf("the plugin was started again: process %d, and %d before", now, pid)
	}
	if out := e.docker(t, "exec", running, "sh", "-c", "cat /w/README.md >/dev/null && echo written >/w/mine && cat /w/mine"); out != "written" {
		t.Errorf("a container that ran meanwhile: %q", out)
	}
	// Children without rights have no way into the host's directories.
	for path, want := range map[string]string{"host": "drwx------", "run/helmdeck-repos-names": "drwxr-xr-x"} {
		info, err := os.Stat(fmt.Sprintf("/proc/%d/root/%s", pid, path))
		if err != nil || info.Mode().String() != want {
			t.Errorf("/%s of the plugin: got %v, %v; want %s", path, info, err, want)
		}
	}
}

// ownEtc puts a dockerd into PATH that has an /etc of its own, and returns that directory.
func ownEtc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program, err := exec.LookPath("dockerd")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", "/etc", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text := fmt.Sprintf("#!/bin/sh\nexec unshare --mount sh -ec 'mount --bind \"$0\" /etc; exec \"$@\"' %q %q \"$@\"\n", filepath.Join(dir, "etc"), program)
	if err := os.WriteFile(filepath.Join(dir, "dockerd"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return filepath.Join(dir, "etc")
}

// serveNames serves DNS on an address of loopback, which it returns: the answer for all names is ip,
// or without one that there is no such name. The tests have their own loopback.
func serveNames(t *testing.T, address string, ip net.IP) string {
	t.Helper()
	c, err := net.ListenPacket("udp", address+":53")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	go func() {
		query := make([]byte, 512)
		for {
			n, peer, err := c.ReadFrom(query)
			if err != nil {
				return
			}
			if answer := answerName(query[:n], ip); answer != nil {
				c.WriteTo(answer, peer)
			}
		}
	}()
	return address
}

// answerName returns the answer to a query of one question (RFC 1035, section 4), or nil.
func answerName(query []byte, ip net.IP) []byte {
	const header = 12
	if len(query) < header {
		return nil
	}
	end := bytes.IndexByte(query[header:], 0) // of the name
	if end < 0 || len(query) < header+end+5 {
		return nil
	}
	question := query[header : header+end+5]
	isA := question[end+2] == 1
	flags, answers := []byte{0x81, 0x80}, byte(0)
	if ip == nil {
		flags[1] |= 3 // no such name
	} else if isA {
		answers = 1
	}
	answer := append([]byte{query[0], query[1], flags[0], flags[1], 0, 1, 0, answers, 0, 0, 0, 0}, question...)
	if answers == 1 {
		answer = append(answer, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4)
		answer = append(answer, ip.To4()...)
	}
	return answer
}
