package prebuild

import (
	"strings"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	with := func(change func(*Job)) Job {
		j := job()
		change(&j)
		return j
	}
	option := func(name, value string) Job { return with(func(j *Job) { j.Options[name] = value }) }
	for want, j := range map[string]Job{
		"":                                       job(),
		"option publish is not":                  option("publish", "never"),
		"option mode is not":                     option("mode", "keep"),
		"option from is not":                     option("from", "1"),
		"option repo is not":                     option("repo", "https://h"),
		"the option warm is missing":             option("warm", ""),
		"the image is missing":                   with(func(j *Job) { j.Image = "" }),
		"the setup command is missing":           with(func(j *Job) { j.Setup = " " }),
		"the repository is missing":              with(func(j *Job) { j.Repo = "" }),
		"of the repository has a password":       with(func(j *Job) { j.Repo = "https://u:secret@h/app" }),
		"has a password, which would be in logs": with(func(j *Job) { j.Repo = "https://u:secret%zz@h/app" }),
		`the target "w" is not possible`:         with(func(j *Job) { j.Target = "w" }),
		"the timeout 0s is not possible":         with(func(j *Job) { j.Timeout = 0 }),
		"variable 2 has no name: allowed":        with(func(j *Job) { j.Env = []string{"A=b", "=secret"} }),
	} {
		err := j.Check()
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %q", err, want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("the error has a value: %v", err)
		}
	}
}

// TestPassword checks which URLs are refused.
func TestPassword(t *testing.T) {
	for repo, want := range map[string]bool{
		"https://h/app": false, "git@h:app": false, "ssh://git@h/app": false, "https://u@h/app": false, "https://u:@h/app": true, "https://:p@h/app": true,
		"ssh://u:p@h/app": true, "https://u:p\x00@h": true,
	} {
		if hasPassword(repo) != want {
			t.Errorf("%q: got %v", repo, !want)
		}
	}
}

// TestLabel checks that no two jobs that differ in what counts have one label.
func TestLabel(t *testing.T) {
	changes := map[string]func(*Job){
		"none":            func(*Job) {},
		"setup":           func(j *Job) { j.Setup = "npm c" },
		"update":          func(j *Job) { j.Update = "i" },
		"moved":           func(j *Job) { j.Setup, j.Update = "npm c", "i" },
		"target":          func(j *Job) { j.Target = "/x" },
		"env":             func(j *Job) { j.Env = []string{"A"} },
		"env with value":  func(j *Job) { j.Env = []string{"A="} },
		"two":             func(j *Job) { j.Env = []string{"A", "B"} },
		"sparse":          func(j *Job) { j.Options["sparse"] = "a,b" },
		"submodules":      func(j *Job) { j.Options["submodules"] = "a,b" },
		"module errors":   func(j *Job) { j.Options["submodule_errors"] = "warn" },
		"lfs":             func(j *Job) { j.Options["lfs"] = "false" },
		"one of the same": func(j *Job) { j.Env = []string{"A1:B"} },
	}
	seen := map[string]string{job().Label("other"): "image"}
	for name, change := range changes {
		j := job()
		change(&j)
		label := j.Label("sha256:node")
		if other, ok := seen[label]; ok {
			t.Errorf("%s and %s have one label", name, other)
		}
		if seen[label] = name; len(label) != len("prebuild ")+64 {
			t.Errorf("got %q", label)
		}
	}
	j := job()
	j.Timeout, j.Network = time.Second, "host"
	if got := j.Label("sha256:node"); seen[got] != "none" {
		t.Error("the timeout or the network changes the label")
	}
	j.Options["sparse"] = "b/,a,b"
	if got := j.Label("sha256:node"); seen[got] != "sparse" {
		t.Error("the order of directories changes the label")
	}
}
