package sshserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// keys are the keys that ssh-keygen made.
type keys struct {
	host, changed []hostKey
	client        []byte
	locked        []byte
}

type hostKey struct {
	public      string // type and base64, as in a known_hosts line
	fingerprint string // SHA256:…
}

// LockedPassphrase is the passphrase of LockedKey.
const LockedPassphrase = "open sesame"

// ClientKey returns the private key that may log in, in OpenSSH's format, without a
// passphrase.
func (s *Server) ClientKey() []byte { return s.keys.client }

// LockedKey returns another key that may log in, with a passphrase.
func (s *Server) LockedKey() []byte { return s.keys.locked }

// KnownHosts returns the known_hosts lines of the server's first host keys, ed25519 and rsa.
func (s *Server) KnownHosts() string { return s.knownHosts(s.keys.host) }

// ChangedKnownHosts returns the lines of the other pair, to which ChangeHostKeys switches.
func (s *Server) ChangedKnownHosts() string { return s.knownHosts(s.keys.changed) }

// Fingerprints returns the fingerprints of the keys in KnownHosts, in their order, as ssh prints
// them: "SHA256:...".
func (s *Server) Fingerprints() []string {
	var prints []string
	for _, key := range s.keys.host {
		prints = append(prints, key.fingerprint)
	}
	return prints
}

func (s *Server) knownHosts(keys []hostKey) string {
	host, port, _ := strings.Cut(s.Address(), ":")
	var lines strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&lines, "[%s]:%s %s\n", host, port, key.public)
	}
	return lines.String()
}

// prepare makes the keys and files for sshd.
func (s *Server) prepare() error {
	var err error
	for _, pair := range []struct {
		name string
		keys *[]hostKey
	}{{"host", &s.keys.host}, {"changed", &s.keys.changed}} {
		for _, kind := range []string{"ed25519", "rsa"} {
			key, err := s.generate(pair.name+"_"+kind, kind, "")
			if err != nil {
				return err
			}
			*pair.keys = append(*pair.keys, key)
		}
		if err := os.WriteFile(s.file(pair.name+".conf"), []byte(s.configuration(pair.name)), 0o600); err != nil {
			return err
		}
	}
	var authorized strings.Builder
	for _, key := range []struct {
		name, passphrase string
		private          *[]byte
	}{{"client", "", &s.keys.client}, {"locked", LockedPassphrase, &s.keys.locked}} {
		public, err := s.generate(key.name, "ed25519", key.passphrase)
		if err != nil {
			return err
		}
		fmt.Fprintln(&authorized, public.public)
		if *key.private, err = os.ReadFile(s.file(key.name)); err != nil {
			return err
		}
	}
	accounts, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	accounts = append([]byte(User+":x:0:0::"+s.dir+":/bin/sh\nsshd:x:65534:65534::/run/sshd:/usr/sbin/nologin\n"), accounts...)
	for name, content := range map[string]string{
		"authorized_keys": authorized.String(),
		"passwd":          string(accounts),
		"serve":           s.serveScript(),
		"session":         s.sessionScript(),
	} {
		if err := os.WriteFile(s.file(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	out, err := exec.Command(s.sshd, "-t", "-f", s.file("host.conf")).CombinedOutput()
	// After reading the configuration, sshd complains here that its account is missing. serveScript
	// makes it.
	if err != nil && !strings.Contains(string(out), "rivilege separation") {
		return fmt.Errorf("%s: %w: %s", s.sshd, err, out)
	}
	return nil
}

func (s *Server) generate(name, kind, passphrase string) (hostKey, error) {
	path := s.file(name)
	bits := []string{}
	if kind == "rsa" {
		bits = []string{"-b", "2048"}
	}
	args := append([]string{"-q", "-t", kind, "-N", passphrase, "-C", "", "-f", path}, bits...)
	if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
		return hostKey{}, fmt.Errorf("ssh-keygen: %w: %s", err, out)
	}
	public, err := os.ReadFile(path + ".pub")
	if err != nil {
		return hostKey{}, err
	}
	print, err := exec.Command("ssh-keygen", "-l", "-f", path+".pub").Output()
	if err != nil {
		return hostKey{}, fmt.Errorf("ssh-keygen: %w", err)
	}
	fields := strings.Fields(string(print))
	return hostKey{public: strings.TrimSpace(string(public)), fingerprint: fields[1]}, nil
}

func (s *Server) configuration(keys string) string {
	return strings.Join([]string{
		"HostKey " + s.file(keys+"_ed25519"),
		"HostKey " + s.file(keys+"_rsa"),
		"AuthorizedKeysFile " + s.file("authorized_keys"),
		"ForceCommand /bin/sh " + s.file("session"),
		"AcceptEnv GIT_PROTOCOL",
		"AllowUsers " + User,
		"PermitRootLogin yes",
		"StrictModes no", // a test's folders are below /tmp
		"AuthenticationMethods publickey",
		"UsePAM no",
		"DisableForwarding yes",
		"PermitTTY no",
		"PermitUserRC no",
		"UseDNS no",
		"PrintMotd no",
		"PidFile none",
		"LogLevel VERBOSE",
		"",
	}, "\n")
}

// serveScript runs sshd for the connection on its stdin, with the accounts that it needs and a
// folder for privilege separation. Newer versions have several programs, whose paths are compiled
// in.
func (s *Server) serveScript() string {
	parts := filepath.Join(filepath.Dir(s.sshd), "../lib/openssh")
	return `set -e
mount --bind ` + quote(s.file("passwd")) + ` /etc/passwd
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd
if [ -e ` + quote(parts) + `/sshd-session ]; then mount --bind ` + quote(parts) + ` /usr/lib/openssh; fi
exec ` + quote(s.sshd) + ` -i -e -f ` + quote(s.state) + `/"$1".conf
`
}

// ServeEngine lets clients execute docker too, with the engine at host, as clients of ssh://USER@HOST do.
func (s *Server) ServeEngine(host string) error {
	return os.WriteFile(s.file("engine"), []byte(host), 0o600)
}

// sessionScript runs the client's command, if it is one of git, or one of docker after ServeEngine.
func (s *Server) sessionScript() string {
	return `printf '%s\n' "$SSH_ORIGINAL_COMMAND" >>` + quote(s.file("commands")) + `
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
case $SSH_ORIGINAL_COMMAND in
git-lfs-authenticate\ *) exec cat ` + quote(s.file("lfs.json")) + ` ;;
docker\ *) DOCKER_HOST=$(cat ` + quote(s.file("engine")) + `) && export DOCKER_HOST && exec sh -c "$SSH_ORIGINAL_COMMAND" ;;
esac
exec git shell -c "$SSH_ORIGINAL_COMMAND"
`
}
