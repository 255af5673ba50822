package commands

import (
	"strings"
	"testing"
)

// TestPrebuildFlags checks that wrong flags are errors before anything is asked.
func TestPrebuildFlags(t *testing.T) {
	const whole = "prebuild --image i --setup s -o warm=w "
	for args, want := range map[string]string{
		whole:                                     "name the URL of a repository, or a file",
		"prebuild -f p.yaml https://h":            "name either the URL of a repository, or a file",
		"prebuild -f p.yaml --image i":            "--image can't be with --file",
		"prebuild -f p.yaml -e SECRET=x":          "--env can't be with --file",
		"prebuild -f p.yaml --interval 1m":        "--interval is for --watch",
		"prebuild -f p.yaml --parallel 0":         "--parallel 0: allowed are numbers from 1",
		"prebuild -f p.yaml --watch --interval 0": "--interval 0s: allowed are durations from 1s",
		"prebuild -f no-such-file":                "no-such-file: no such file",
		"prebuild a b":                            "requires at most 1 argument",
		whole + "--watch https://h":               "--watch is for --file",
		whole + "--devcontainer https://h":        "image, setup and update can't be with devcontainer",
		"prebuild --setup s -o warm=w https://h":  "the image is missing",
		"prebuild --image i -o warm=w https://h":  "the setup command is missing",
		"prebuild --image i --setup s https://h":  "the option warm is missing",
		whole + "-o publish=always https://h":     "the option publish is not for a prebuild",
		whole + "--target . https://h":            `the target "." is not possible`,
		whole + "--timeout -1s https://h":         "the timeout -1s is not possible",
	} {
		got := fake{}.run(t, "", strings.Fields(args)...)
		if got.failed == nil || !strings.Contains(got.failed.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, got.failed, want)
		}
	}
}
