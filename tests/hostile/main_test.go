// Package hostile attacks the plugin, and shows that the attacks are real.
//
// Every case of TestHostile is one attack with its own mechanism: through a volume's options, from
// a server, through the files of a repository, by root in a container, or over the plugin's socket.
// Each attack runs twice. The control is the attack on a careless use of plain git, or on another
// naive solution in place of the plugin: it shows that the attack works, or that this machine's git
// no longer falls for it. The other run attacks the plugin's real program, in its own process, on
// its own filesystem, with this machine's git.
//
// A case holds if the plugin ran no command of the attacker, nothing outside was read, written or
// asked, the plugin is still the same process and answers, and nothing but the clone is left
// afterwards: no mount, no workspace, nothing in the trash. Containers are processes that run as
// root in their own mount namespace, with the capabilities that an engine gives, or with all if the
// case is privileged.
//
// TestResources has the attacks that cost work (tests/siege). They run one after the other against
// the plugin as it ships, in a memory cgroup of 3 GiB, beside a victim that mounts all the time. A
// case holds if the median of the victim's mounts is at most 3 times, and their maximum at most 10
// times, that of the same run without an attack, if the plugin is still the same process, and if
// half a minute after the removal of the attacker's volumes and clones no process, lock or pinned
// clone of the attack is left.
//
// The tests need root and loop devices, and fail without them. `make test-hostile` prints a line
// for each case.
package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/built"
)

// scratch is the directory for all files of this run. It is not below the checkout, because a
// socket's path may have 107 bytes at most. Every user can enter it, so that only the plugin can
// stop an attack.
var scratch = "/var/tmp/hd-hostile-" + strconv.Itoa(os.Getpid())

// The plugins under attack, and the server with the hostile repositories.
var (
	roomy  *plugin // its disk has space for any honest repository
	narrow *plugin // its disk has 512 MiB
	server *gitserver.Server
	// gitVersion is the version of the machine's git, which the plugin and the controls use.
	gitVersion string
)

// fallen has the cases that fell, by their names, and the reasons of some. TestMain prints them last,
// because a part before may be cut where the output of many tests is shown.
var (
	fallen   = make(map[string]string)
	fallenMu sync.Mutex
)

// noteFall adds a case to fallen if it has failed.
func noteFall(t *testing.T, reasons ...error) {
	fallenMu.Lock()
	defer fallenMu.Unlock()
	if _, known := fallen[t.Name()]; t.Failed() && !known {
		text := "see its output above"
		if err := errors.Join(reasons...); err != nil {
			text = strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fallen[t.Name()] = text
	}
}

func TestMain(m *testing.M) {
	code := 1
	err := prepare()
	if err == nil {
		code = m.Run()
	}
	for name, reason := range fallen {
		fmt.Printf("FELL  %s: %.300s\n", name, reason)
	}
	if err := errors.Join(err, tearDown()); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func prepare() error {
	if os.Geteuid() != 0 {
		return errors.New("run the tests as root: they mount")
	}
	if os.Getenv("HELMDECK_REPOS") == "" {
		if err := built.Check(built.Program, built.Plugin); err != nil {
			return err
		}
	}
	unix.Umask(0)
	out, err := exec.Command("git", "version").Output()
	if err != nil {
		return err
	}
	gitVersion = strings.TrimPrefix(strings.TrimSpace(string(out)), "git version ")
	for _, dir := range []string{"", "repos", "traps", "roomy", "narrow"} {
		if err := os.Mkdir(filepath.Join(scratch, dir), 0o777); err != nil {
			return err
		}
	}
	if server, err = gitserver.Start(filepath.Join(scratch, "repos")); err != nil {
		return err
	}
	if _, err := gitserver.Generate(server.Path("honest"), gitserver.Spec{Seed: 1, Files: 50, Commits: 3, Changes: 5}); err != nil {
		return err
	}
	if roomy, err = startPlugin(filepath.Join(scratch, "roomy"), 16<<30, 2_000_000, "json"); err != nil {
		return err
	}
	// The controls check out as much as the plugin does, so they use its disk.
	if err := os.Mkdir(controls(), 0o777); err != nil {
		return err
	}
	narrow, err = startPlugin(filepath.Join(scratch, "narrow"), 512<<20, 20_000, "text")
	return err
}

// tearDown undoes prepare, even if prepare failed halfway, and returns an error if an attack left
// something behind.
func tearDown() error {
	var errs []error
	for _, p := range []*plugin{roomy, narrow} {
		if p != nil {
			errs = append(errs, p.close())
		}
	}
	if server != nil {
		errs = append(errs, server.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(scratch))...)
}
