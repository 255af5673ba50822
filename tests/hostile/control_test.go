package hostile

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/gitserver/hostile"
)

// control is the attack against what one would have written instead of the plugin.
type control struct {
	// script is for sh in an empty directory, with the repository's address in $REPO, the bait in $CANARY, $OUTSIDE and
	// $BAIT, and what the case adds. Without one there is nothing to compare with, and why says so.
	script string
	env    func(tr *trap) []string
	why    string
	// harmless says that git is not known to have fallen for it, ever: it is others who stumble.
	harmless bool
	// effect is what the script must bring about. None: what it does, if anything, is for the report to say.
	effect hostile.Effect
	// repo serves the repository and returns its address; nil is the honest one.
	repo func(t *testing.T, name string, tr *trap) string
}

// controlPatience bounds a control: what hangs has no other effect.
const controlPatience = 20 * time.Second

// controls is where they work.
func controls() string { return filepath.Join(roomy.dir, "disk", "controls") }

// tryControl makes the attack against the careless, and returns what it did to them.
func (a attack) tryControl(t *testing.T) string {
	t.Helper()
	c := a.control
	if c.script == "" {
		return c.why
	}
	dir := filepath.Join(controls(), a.group+"-"+a.name)
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o777); err != nil {
		t.Fatal(err)
	}
	tr := newTrap(t, dir, a.prepare)
	repo := server.URL("honest")
	if c.repo != nil {
		repo = c.repo(t, "control-"+a.group+"-"+a.name, tr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), controlPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.script)
	cmd.WaitDelay = time.Second
	// A git that waits at a FIFO outlives its shell.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Dir = work
	cmd.Env = append([]string{
		"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + work, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "REPO=" + repo, "CANARY=" + tr.Canary, "OUTSIDE=" + tr.Outside, "BAIT=" + tr.URL,
	}, a.env(tr)...)
	out, err := cmd.CombinedOutput()
	effects := tr.effects(t, string(out))
	effects[hostile.Fails] = err != nil
	exec.Command("chattr", "-R", "-f", "-i", "-a", work).Run()
	// Deeper than any path: rm copes.
	if out, err := exec.Command("rm", "-rf", work).CombinedOutput(); err != nil {
		t.Errorf("clean up: %v: %s", err, out)
	}
	if c.effect != hostile.None {
		if !effects[c.effect] {
			t.Errorf("the control does not fire: it has not: %s\n%v %.2000s", c.effect, err, out)
			return "DOES NOT FIRE"
		}
		return string(c.effect)
	}
	for _, effect := range []hostile.Effect{hostile.Runs, hostile.Reads, hostile.Writes, hostile.Asks} {
		if effects[effect] {
			return string(effect)
		}
	}
	if c.harmless {
		return "no effect on git " + gitVersion
	}
	return "closed in git " + gitVersion
}

func (a attack) env(tr *trap) []string {
	if a.control.env == nil {
		return nil
	}
	return a.control.env(tr)
}
