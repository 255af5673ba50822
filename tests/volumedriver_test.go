package tests

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/wait"
)

// The tests here make the same assertions about the plugin, under the same names, as the engine's
// own tests of volume drivers (moby: docker_cli_external_volume_driver_test.go). These have no test
// here:
//
//	RetryNotImmediatelyExists  A container waits for a driver that appears later. The engine supports this only for a
//	                           driver that a file names; a managed plugin is either enabled or missing.
//	GetEmptyResponse           A Get answers neither a volume nor an error. This driver never does that.
//	PathCalls                  The engine lists volumes without asking for their paths. This does not concern the driver.

// driverVolume creates a volume for one test, and returns the value of --mount for it.
func driverVolume(t *testing.T, e *engine, r remote) string {
	t.Helper()
	e.create(t, subject(t), "repo="+r.url, "subject="+subject(t))
	return mount(subject(t))
}

// mountCount returns how many Mounts of a volume the plugin's log has. It is useful only for a
// volume that no other test mounts.
func (e *engine) mountCount(t *testing.T, volume string) int {
	t.Helper()
	log := hostScript(t, "/", `cat "$1"`, e.Path("log"))
	return len(regexp.MustCompile(`msg=\\"mount: done\\".* volume=`+regexp.QuoteMeta(volume)+` `).FindAllString(log, -1))
}

func TestVolumeCLICreateOptionConflict(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	driverVolume(t, e, r)
	if said := e.wantError(t, "volume", "create", "--driver", "local", subject(t)); !strings.Contains(said, "must be unique") {
		t.Errorf("create a local volume with the name of a volume of the plugin: %s", said)
	}
	driver := e.docker(t, "volume", "inspect", "--format", "{{.Driver}}", subject(t))
	e.docker(t, "volume", "create", "--driver", driver, subject(t))

	e.docker(t, "volume", "create", subject(t)+"-local")
	t.Cleanup(func() { e.Try("volume", "rm", subject(t)+"-local") })
	said := e.wantError(t, append([]string{"volume", "create"}, createArgs(subject(t)+"-local", "repo="+r.url)...)...)
	if !strings.Contains(said, "must be unique") {
		t.Errorf("create a volume with the name of a local volume: %s", said)
	}
}

func TestExternalVolumeDriverNamed(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	driverVolume(t, e, r)
	same(t, "the container", e.docker(t, "run", "--rm", "--network", "none", "--volume", subject(t)+":/w", "--volume-driver", pluginName,
		image, "sh", "-euc", inCheckout(portrait)), plain(t, r.url, ""))
	if got := e.mountCount(t, subject(t)); got != 1 {
		t.Errorf("the volume was mounted %d times, want once", got)
	}
	e.docker(t, "volume", "rm", subject(t))
	e.awaitReclaimed(t, subject(t))
}

func TestExternalVolumeDriverUnnamed(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	name := parseStamp(t, e.sh(t, mount("", "repo="+r.url, "subject="+subject(t)), printStamp)).Volume
	if got := e.mountCount(t, name); got != 1 {
		t.Errorf("the volume was mounted %d times, want once", got)
	}
	e.wantError(t, "volume", "inspect", name)
	e.awaitReclaimed(t, subject(t))
}

func TestExternalVolumeDriverVolumesFrom(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	first := e.docker(t, "create", "--network", "none", "--mount", mount("", "repo="+r.url, "subject="+subject(t)), image, "sh", "-c", printStamp)
	t.Cleanup(func() { e.Try("rm", "--force", "--volumes", first) })
	name := parseStamp(t, e.docker(t, "start", "--attach", first)).Volume
	second := e.docker(t, "run", "--rm", "--network", "none", "--volumes-from", first, image, "sh", "-c", printStamp)
	if got := parseStamp(t, second).Volume; got != name {
		t.Errorf("the second container has volume %s, want %s", got, name)
	}
	if got := e.mountCount(t, name); got != 2 {
		t.Errorf("the volume was mounted %d times, want twice", got)
	}
	if left := e.leases(t, name); len(left) != 0 {
		t.Errorf("leases without containers: %v", left)
	}
	e.docker(t, "rm", "--force", "--volumes", first)
	e.wantError(t, "volume", "inspect", name)
	e.awaitReclaimed(t, subject(t))
}

func TestExternalVolumeDriverDeleteContainer(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	c := e.sleeper(t, mount("", "repo="+r.url, "subject="+subject(t)))
	name := parseStamp(t, c.sh(t, printStamp)).Volume
	c.remove(t)
	e.wantError(t, "volume", "inspect", name)
	if got := e.mountCount(t, name); got != 1 {
		t.Errorf("the volume was mounted %d times, want once", got)
	}
	e.awaitReclaimed(t, subject(t))
}

// Volumes of other drivers can be created while the plugin does not answer.
func TestExternalVolumeDriverLookupNotBlocked(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	pid := e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	proceed := func() { syscall.Kill(pid, syscall.SIGCONT) }
	defer proceed()
	created := make(chan error, 1)
	go func() {
		_, err := e.Try(append([]string{"volume", "create"}, createArgs("slow", "repo="+r.url, "subject="+subject(t))...)...)
		created <- err
	}()
	for range 20 {
		e.docker(t, "volume", "rm", e.docker(t, "volume", "create"))
	}
	select {
	case err := <-created:
		t.Errorf("Create returned while the plugin was stopped: %v", err)
		return
	default:
	}
	proceed()
	if err := <-created; err != nil {
		t.Error(err)
	}
	e.docker(t, "volume", "rm", "slow")
}

func TestExternalVolumeDriverBindExternalVolume(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	c := e.sleeper(t, driverVolume(t, e, r))
	got := e.docker(t, "inspect", "--format", "{{range .Mounts}}{{.Name}} {{.Driver}} {{.Destination}};{{end}}", c.id)
	if want := subject(t) + " " + pluginName + ":latest /w;"; got != want {
		t.Errorf("mounts: got %q, want %q", got, want)
	}
}

func TestExternalVolumeDriverList(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	driverVolume(t, e, r)
	got := e.docker(t, "volume", "ls", "--format", "{{.Driver}} {{.Name}}", "--filter", "name="+subject(t))
	if want := pluginName + ":latest " + subject(t); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExternalVolumeDriverGet(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	if said := e.wantError(t, "volume", "inspect", subject(t)); !strings.Contains(strings.ToLower(said), "no such volume") {
		t.Errorf("an unknown volume: %s", said)
	}
	driverVolume(t, e, r)
	if got := e.status(t, subject(t))["repo"]; got != r.url {
		t.Errorf("status: got repo %v, want %s", got, r.url)
	}
}

func TestExternalVolumeDriverWithDaemonRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	m := driverVolume(t, e, r)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	c := e.sleeper(t, m)
	if got, want := e.docker(t, "inspect", "--format", "{{range .Mounts}}{{.Driver}};{{end}}", c.id), pluginName+":latest;"; got != want {
		t.Errorf("drivers: got %q, want %q", got, want)
	}
	same(t, "the container", c.sh(t, portrait), plain(t, r.url, ""))
}

func TestExternalVolumeDriverMountID(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := driverVolume(t, e, r)
	e.sleeper(t, m)
	e.sleeper(t, m)
	ids := map[any]bool{}
	for _, lease := range e.leases(t, subject(t)) {
		ids[lease.(map[string]any)["id"]] = true
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("two containers mount with IDs %v, want two different ones", ids)
	}
}

func TestExternalVolumeDriverCapabilities(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	driverVolume(t, e, r)
	if got := e.docker(t, "volume", "inspect", "--format", "{{.Scope}}", subject(t)); got != "local" {
		t.Errorf("scope: got %q, want local", got)
	}
}

// The plugin loses a volume that the engine knows. The name can be used again, for this driver and
// for another.
func TestExternalVolumeDriverOutOfBandDelete(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	create := func(ref string) error {
		_, err := e.Try(append([]string{"volume", "create"}, createArgs("lost", "repo="+r.url, "ref="+ref)...)...)
		return err
	}
	if err := create("main"); err != nil {
		t.Fatal(err)
	}
	e.wantError(t, "volume", "create", "--driver", "local", "lost")
	e.call(t, "/VolumeDriver.Remove", `{"Name": "lost"}`)
	if err := create("feature/x"); err != nil {
		t.Fatal(err)
	}
	got := e.docker(t, "volume", "inspect", "--format", "{{.Driver}} {{.Options.ref}} {{.Status.ref}}", "lost")
	if want := pluginName + ":latest feature/x feature/x"; got != want {
		t.Errorf("created again: got %q, want %q", got, want)
	}
	e.call(t, "/VolumeDriver.Remove", `{"Name": "lost"}`)
	e.docker(t, "volume", "create", "--driver", "local", "lost")
	if got := e.docker(t, "volume", "inspect", "--format", "{{.Driver}} {{len .Options}}", "lost"); got != "local 0" {
		t.Errorf("created with another driver: got %q, want no options", got)
	}
	e.docker(t, "volume", "rm", "lost")
}

// call sends a request to the plugin's socket directly, not through the engine.
func (e *engine) call(t *testing.T, path, body string) {
	t.Helper()
	socket := fmt.Sprintf("/proc/%d/root/run/docker/plugins/repos.sock", e.pluginPID(t, 0))
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	answer, err := client.Post("http://plugin"+path, "", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %s %v", path, answer.Status, text, err)
	}
}

// The engine sends no Unmount for a Mount that failed, with or without a working directory in the
// volume. The plugin must not have a lease for it.
func TestExternalVolumeDriverUnmountOnMountFail(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "subject="+subject(t), "ref="+strings.Repeat("ab", 20))
	for _, flags := range [][]string{nil, {"--workdir", "/w"}} {
		args := append([]string{"run", "--rm", "--network", "none", "--mount", mount(subject(t))}, flags...)
		e.wantError(t, append(args, image, "true")...)
		if left := e.leases(t, subject(t)); len(left) != 0 {
			t.Errorf("%q: leases of a mount that failed: %v", flags, left)
		}
	}
	for _, id := range strings.Fields(e.docker(t, "ps", "--all", "--quiet", "--filter", "volume="+subject(t))) {
		e.docker(t, "rm", "--force", id)
	}
	e.awaitReclaimed(t, subject(t))
}

func TestExternalVolumeDriverUnmountOnCp(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	c := e.sleeper(t, driverVolume(t, e, r))
	awaitLeases := func(when string, want int) {
		t.Helper()
		wait.For(t, "the leases "+when, func() error {
			leases := e.leases(t, subject(t))
			if len(leases) != want || want == 1 && leases[0].(map[string]any)["mounts"] != 1.0 {
				return fmt.Errorf("%v", leases)
			}
			return nil
		})
	}
	awaitLeases("at the start", 1)
	e.docker(t, "cp", c.id+":/bin/sh", filepath.Join(t.TempDir(), "out"))
	awaitLeases("after docker cp", 1)
	same(t, "the container after docker cp", c.sh(t, portrait), plain(t, r.url, ""))
	e.docker(t, "kill", c.id)
	awaitLeases("after the container's end", 0)
	c.remove(t)
	e.awaitReclaimed(t, subject(t))
}
