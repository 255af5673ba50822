// Package hostile attacks the product, and shows that the attacks are real.
//
// Every case of TestHostile is one attack of a mechanism of its own: by who names repositories, by a server, by what is
// in a repository, by root in a container, or by who can talk to the plugin's socket. It is made twice. Once against a
// careless use of plain git, or whatever else one would have written instead of the plugin: the control, which shows
// that the attack works, or that this machine's git no longer falls for it. And once against the plugin: its real
// program in a process of its own, on a filesystem of its own, with this machine's git.
//
// A case holds when no command of the attacker ran in the plugin, nothing outside was read, written or asked, the
// plugin is the same process as before and answers, and nothing but the clone is left afterwards: no mount, no
// workspace, nothing in the trash. Containers are processes of root in a mount namespace of their own with the
// capabilities that an engine gives, or with all of them where the case says "privileged".
//
// TestResources has the attacks that cost work (tests/siege). They are made one after the other, against the plugin as it
// ships, in a memory cgroup of 3 GiB, beside a victim that mounts all the time: a case holds when the victim's mounts take
// at most 3 times as long in the median, and 10 times at most, as in the same run without an attack, the plugin is the
// same process as before, and half a minute after the attacker's volumes were removed and its clones deleted no process,
// no lock and no pinned clone of theirs is left.
//
// The tests need root and loop devices, and fail without. `make test-hostile` prints a line per case.
package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/gitserver"
)

// scratch holds everything of this run; not below the checkout, for a socket's path may have 107 bytes only, and open
// to all, so that nothing but the plugin keeps an attack from what it aims at.
var scratch = "/var/tmp/hd-hostile-" + strconv.Itoa(os.Getpid())

// The plugins under attack, and the server of what they are attacked with.
var (
	roomy  *plugin // has space for any honest repository
	narrow *plugin // has little
	server *gitserver.Server
	// gitVersion is that of the machine, which the plugin and the controls use.
	gitVersion string
)

func TestMain(m *testing.M) {
	code := 1
	err := prepare()
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, dismantle()); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func prepare() error {
	if os.Geteuid() != 0 {
		return errors.New("run the tests as root: they mount")
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
	if roomy, err = startPlugin(filepath.Join(scratch, "roomy"), 16<<30, 2_000_000); err != nil {
		return err
	}
	// Controls check out as much as the plugin does.
	if err := os.Mkdir(controls(), 0o777); err != nil {
		return err
	}
	narrow, err = startPlugin(filepath.Join(scratch, "narrow"), 512<<20, 20_000)
	return err
}

// dismantle ends what prepare began, also half of it, and complains about what the attacks have left.
func dismantle() error {
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
