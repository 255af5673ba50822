package hostile

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
)

// control is the same attack against a naive solution in place of the plugin.
type control struct {
	// script runs with sh in an empty directory, with the repository's URL in $REPO, the bait in
	// $CANARY, $OUTSIDE and $BAIT, and the variables of env. If it is empty, the attack has no
	// control, and why is the reason.
	script string
	env    func(tr *trap) []string
	why    string
	// harmless is set if no version of git is known to fall for the attack, only other programs.
	harmless bool
	// effect is the effect that the script must have. With None, any effect is only reported.
	effect hostile.Effect
	// repo serves the repository and returns its URL; nil stands for the honest one.
	repo func(t *testing.T, name string, tr *trap) string
}

// controlTimeout ends a control. A control that hangs counts as failed.
const controlTimeout = 20 * time.Second

// controls returns the directory in which the controls run.
func controls() string { return filepath.Join(roomy.dir, "disk", "controls") }

// tryControl runs the attack's control, and returns its effect for the report.
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
	ctx, cancel := context.WithTimeout(t.Context(), controlTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", c.script)
	cmd.WaitDelay = time.Second
	// A git that waits for a FIFO would outlive its shell.
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
	// rm can delete directories that are deeper than any path.
	if out, err := exec.Command("rm", "-rf", work).CombinedOutput(); err != nil {
		t.Errorf("clean up: %v: %s", err, out)
	}
	if c.effect != hostile.None {
		if !effects[c.effect] {
			t.Errorf("the control does not fire: want the effect %q\n%v %.2000s", c.effect, err, out)
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
