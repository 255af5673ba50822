package environ

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// show makes this program print its environment instead of running tests.
const show = "ENVIRON_SHOW"

func TestMain(m *testing.M) {
	if os.Getenv(show) == "" {
		os.Exit(m.Run())
	}
	for _, v := range os.Environ() {
		fmt.Println(v)
	}
	for _, v := range Downloading()[len(os.Environ()):] {
		fmt.Println("download", v)
	}
}

func TestRemoved(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kept := []string{"A=b", "DOCKERD_MACHINE_NETWORK=3", "LEGIT_=1", show + "=1"}
	removed := []string{"DOCKER_CONTEXT=nope", "DOCKER_HOST=tcp://127.0.0.1:1", "GIT_CONFIG_COUNT=1", "GIT_DIR=/nonexistent"}
	proxies := []string{"HTTP_PROXY=http://127.0.0.1:1", "NO_PROXY=x", "all_proxy=http://127.0.0.1:1", "https_proxy=http://127.0.0.1:1"}
	all := slices.Concat(kept, removed, proxies)
	for _, c := range []struct {
		args, want, download []string
	}{
		{[]string{"-test.v"}, kept, proxies},
		{[]string{"credential", "-test.v"}, all, nil}, // as git runs the plugin's program
		{nil, all, nil},
	} {
		cmd := exec.Command(self, c.args...)
		cmd.Env = all
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var got, download []string
		for line := range strings.Lines(string(out)) {
			if proxy, ok := strings.CutPrefix(strings.TrimSpace(line), "download "); ok {
				download = append(download, proxy)
			} else {
				got = append(got, strings.TrimSpace(line))
			}
		}
		got = slices.DeleteFunc(got, func(v string) bool { return !slices.Contains(all, v) }) // the race detector may add some
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) || !slices.Equal(download, c.download) {
			t.Errorf("%q: got %q, and %q to download; want %q, and %q", c.args, got, download, c.want, c.download)
		}
	}
}
