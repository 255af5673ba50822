package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver/sshserver"
	"github.com/helmdeck/repos/tests/wait"
)

// relayLabel marks what a relay makes in the engine.
const relayLabel = "label=com.helmdeck.repos.relay"

// nobody is a user without any right, who is in /etc/passwd because ssh wants that.
const nobody = 65534

// reposAs returns docker-repos for an engine at host, as a user with a group and no other right.
func (e *engine) reposAs(t *testing.T, host string, gid uint32, args ...string) *exec.Cmd {
	t.Helper()
	program := e.Path("docker-repos")
	if _, err := os.Stat(program); err != nil {
		content, err := os.ReadFile("../build/docker-repos")
		if err != nil {
			t.Fatalf("no command: run make cli first: %v", err)
		}
		if err := os.WriteFile(program, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DOCKER_HOST=" + host, "DOCKER_CONFIG=/nonexistent", "HOME=/"}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: gid}, Setpgid: true}
	return cmd
}

// dockerAs returns docker's command, which has the plugin repos, for an engine at host, as reposAs does.
func (e *engine) dockerAs(t *testing.T, host string, gid uint32, args ...string) *exec.Cmd {
	t.Helper()
	cmd := e.reposAs(t, host, gid, args...)
	config := e.Path("docker")
	if err := os.MkdirAll(filepath.Join(config, "cli-plugins"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(cmd.Path, filepath.Join(config, "cli-plugins/docker-repos")); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	program, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args[0] = program, program
	cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+config)
	return cmd
}

// wantNoRelay checks that no relay is left in the engine.
func (e *engine) wantNoRelay(t *testing.T) {
	t.Helper()
	if left := e.docker(t, "ps", "--all", "--quiet", "--filter", relayLabel) + e.docker(t, "images", "--all", "--quiet", "--filter", relayLabel); left != "" {
		t.Errorf("relays are left: %s", left)
	}
}

// group returns the group that may use the engine.
func (e *engine) group(t *testing.T) uint32 {
	t.Helper()
	var socket syscall.Stat_t
	if err := syscall.Stat(e.Path("sock"), &socket); err != nil {
		t.Fatal(err)
	}
	return socket.Gid
}

// TestRelay checks that users who may use the engine, but can't open the admin socket, reach the plugin
// over every kind of address, several at a time, and leave nothing.
func TestRelay(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	port := freePort(t)
	e := own(t, nil, "--host", "tcp://127.0.0.1:"+port)
	server, ssh := sshServer(t, e)
	hosts := map[string]string{"unix": "unix://" + e.Path("sock"), "tcp": "tcp://127.0.0.1:" + port, "ssh": "ssh://" + sshserver.User + "@" + server}
	for name, host := range hosts {
		t.Run(name, func(t *testing.T) {
			gid := e.group(t)
			if name != "unix" {
				gid = nobody // the address is enough
			}
			cmd := e.reposAs(t, host, gid, "ls", "--format", "json")
			cmd.Env[0] = "PATH=" + ssh + ":" + os.Getenv("PATH")
			if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) != 0 {
				t.Errorf("got %s, %v", out, err)
			}
			cmd = e.reposAs(t, host, gid, "logs", "--format", "{{.Message}}")
			cmd.Env[0] = "PATH=" + ssh + ":" + os.Getenv("PATH")
			if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("listening\n")) {
				t.Errorf("the log: got %s, %v", out, err)
			}
			cmd = e.dockerAs(t, host, gid, "repos", "doctor", "--remotes=false", "--format", "{{.Name}}")
			cmd.Env[0] = "PATH=" + ssh + ":" + os.Getenv("PATH")
			if out, err := cmd.Output(); err != nil || !bytes.Contains(out, []byte("plugin\n")) {
				t.Errorf("docker repos doctor: got %s, %v", out, err)
			}
			e.wantNoRelay(t)
		})
	}
	t.Run("refused", func(t *testing.T) { // the control: without the group the engine refuses
		if out, err := e.reposAs(t, hosts["unix"], nobody, "ls").CombinedOutput(); err == nil {
			t.Errorf("got %s", out)
		}
	})
	t.Run("ten at once", func(t *testing.T) {
		var all sync.WaitGroup
		for range 10 {
			cmd := e.reposAs(t, hosts["unix"], e.group(t), "version", "--format", "json")
			all.Go(func() {
				if out, err := cmd.CombinedOutput(); err != nil || !json.Valid(out) {
					t.Errorf("got %s, %v", out, err)
				}
			})
		}
		all.Wait()
		e.wantNoRelay(t)
	})
	t.Run("killed", func(t *testing.T) {
		cmd := e.reposAs(t, hosts["unix"], e.group(t), "events", "--follow")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		running := func() string { return e.docker(t, "ps", "--quiet", "--filter", relayLabel) }
		wait.For(t, "the relay", func() error {
			if running() == "" {
				return errors.New("does not run")
			}
			return nil
		})
		cmd.Process.Kill()
		cmd.Wait()
		wait.For(t, "the end of the relay", func() error {
			if id := e.docker(t, "ps", "--all", "--quiet", "--filter", relayLabel); id != "" {
				return fmt.Errorf("%s is left", id)
			}
			return nil
		})
		// Only the image is left, which the next command removes after a minute.
		if image := e.docker(t, "images", "--all", "--quiet", "--filter", relayLabel); strings.Contains(image, "\n") || image == "" {
			t.Errorf("left are the images %q, want one", image)
		} else {
			e.docker(t, "rmi", image)
		}
	})
	t.Run("claim", func(t *testing.T) { // and a secret that passes is nowhere in the engine
		const secret = "s3cret-through-the-relay"
		put := e.reposAs(t, hosts["tcp"], nobody, "credentials", "put", "relayed", "--scope", "https://git.example.com", "--user", "u")
		put.Stdin = strings.NewReader(secret + "\n")
		if out, err := put.CombinedOutput(); err != nil || strings.Contains(string(out), secret) {
			t.Fatalf("got %s, %v", out, err)
		}
		out, err := e.reposAs(t, hosts["tcp"], nobody, "audit", "--action", "credential.put", "--format", "{{.Name}} {{.Actor.Claim}}").Output()
		if got := strings.TrimSpace(string(out)); err != nil || got != "relayed nobody" {
			t.Errorf("got %q, %v", got, err)
		}
		if found, err := exec.Command("grep", "-rlF", secret, e.Path("log"), e.Path("data/containers")).Output(); err == nil || len(found) > 0 {
			t.Errorf("the engine has the secret in %s", found)
		}
	})
	t.Run("doctor", func(t *testing.T) { e.testDoctor(t, hosts["unix"]) })
	t.Run("engine killed", func(t *testing.T) {
		cmd := e.reposAs(t, hosts["unix"], e.group(t), "events", "--follow")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait.For(t, "the relay", func() error {
			if e.docker(t, "ps", "--quiet", "--filter", relayLabel) == "" {
				return errors.New("does not run")
			}
			return nil
		})
		if err := e.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Error("the command ended without an error")
		}
		if err := e.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

// testDoctor checks what `docker repos doctor` says of this engine, and of the plugin when it is disabled.
func (e *engine) testDoctor(t *testing.T, host string) {
	doctor := func() (checks map[string]string, text string, code int) {
		t.Helper()
		var stderr bytes.Buffer
		cmd := e.reposAs(t, host, e.group(t), "doctor", "--format", "json")
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			code = ended.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		checks = map[string]string{}
		for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
			var c struct{ Name, Status, Detail string }
			if err := d.Decode(&c); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			checks[c.Name] = c.Status
			text += c.Name + " " + c.Status + " " + c.Detail + "\n"
		}
		return checks, text + stderr.String(), code
	}
	checks, text, code := doctor()
	for _, name := range []string{
		"engine", "plugin", "kernel", "overlay", "mounts", "landlock", "disk", "inodes", "clock", "settings", "deadlines", "selinux", "userns",
		"budget", "credential", "remote",
	} {
		// How full the machine's disk is does not concern the test, nor how old the engine.
		if checks[name] != "ok" && (checks[name] == "" || name != "disk" && name != "inodes" && name != "settings" && name != "landlock" && name != "kernel" && name != "engine") {
			t.Errorf("%s is %q:\n%s", name, checks[name], text)
		}
	}
	if failed := strings.Contains(text, " failed "); failed != (code == 1) || code > 1 {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	e.docker(t, "plugin", "disable", "--force", pluginName)
	if checks, text, code = doctor(); checks["plugin"] != "failed" || code != 1 || !strings.Contains(text, "docker plugin enable --timeout 120 "+pluginName) {
		t.Errorf("disabled: exit code %d\n%s", code, text)
	}
	e.docker(t, "plugin", "enable", "--timeout", "120", pluginName)
	if checks, text, _ = doctor(); checks["plugin"] != "ok" {
		t.Errorf("enabled again:\n%s", text)
	}
	e.wantNoRelay(t)
}

// sshServer runs the machine's sshd on loopback, over which git@ADDRESS may execute docker with the engine. It returns the
// address, and a directory with an ssh for PATH that knows the host, and logs in with a key that nobody may read.
func sshServer(t *testing.T, e *engine) (address, bin string) {
	t.Helper()
	s, err := sshserver.Start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if t.Failed() {
			t.Logf("sshd:\n%s", s.Log())
		}
	})
	if err := s.ServeEngine("unix://" + e.Path("sock")); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	bin = t.TempDir()
	in := func(name string) string { return filepath.Join(bin, name) }
	script := fmt.Sprintf("#!/bin/sh\nexec %s -F none -o IdentityFile=%s -o UserKnownHostsFile=%s -o StrictHostKeyChecking=yes \"$@\"\n", program, in("key"), in("known_hosts"))
	for name, content := range map[string]string{"ssh": script, "key": string(s.ClientKey()), "known_hosts": s.KnownHosts()} {
		if err := os.WriteFile(in(name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(in("key"), 0o600), os.Chown(in("key"), nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	for d := bin; d != "/" && d != "/tmp"; d = filepath.Dir(d) { // another user executes it
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s.Address(), bin
}
