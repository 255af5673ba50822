package sandbox

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutSysResource runs the calling test in another process, which lacks CAP_SYS_RESOURCE as
// the shipped plugin does. It reports whether the caller is that process.
func withoutSysResource(t *testing.T) bool {
	t.Helper()
	const variable = "HELMDECK_TEST_UNPRIVILEGED"
	if os.Getenv(variable) != "" {
		return true
	}
	type result struct {
		out []byte
		err error
	}
	ended := make(chan result)
	go func() {
		runtime.LockOSThread() // never unlocked, because the bounding set is the thread's
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SYS_RESOURCE, 0, 0, 0); err != nil {
			ended <- result{nil, err}
			return
		}
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), variable+"=1")
		out, err := cmd.CombinedOutput()
		ended <- result{out, err}
	}()
	if r := <-ended; r.err != nil {
		t.Errorf("%v\n%s", r.err, r.out)
	}
	return false
}

func TestChildIsLimitedWithoutSysResource(t *testing.T) {
	if !withoutSysResource(t) {
		return
	}
	out := runScript(t, "cat /proc/self/limits")
	for _, want := range []string{
		"Max cpu time 600 605 seconds",
		"Max data size 4294967296 4294967296 bytes",
		"Max core file size 0 0 bytes",
		"Max open files 4096 4096 files",
	} {
		found := false
		for line := range strings.Lines(out) {
			found = found || strings.Join(strings.Fields(line), " ") == want
		}
		if !found {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
}

func TestKernelEndsChildrenFirst(t *testing.T) {
	if !withoutSysResource(t) {
		return
	}
	// The score is raised after the start, so the script waits for it.
	out := runScript(t, `n=0
until read -r score < /proc/self/oom_score_adj && [ "$score" = 500 ] || [ $n = 100000 ]; do n=$((n+1)); done
sh -c 'cat /proc/self/oom_score_adj'`)
	if got := strings.TrimSpace(out); got != "500" {
		t.Errorf("a child's child has the score %s, want 500", got)
	}
}
