package cmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"

	"github.com/helmdeck/repos/cli/internal/prebuild"
	"github.com/helmdeck/repos/cli/internal/session"
)

func TestCode(t *testing.T) {
	failed := &prebuild.ExitError{Command: "setup", Code: 3}
	for want, errs := range map[int][]error{
		0:   {nil},
		3:   {errors.Join(fmt.Errorf("x: %w", failed), errors.New("remove")), ofMany(failed, 2, 3)},
		124: {&prebuild.TimeoutError{Command: "setup", After: time.Second}},
		125: {errors.New("other"), ofMany(errors.New("other"), 1, 1)},
	} {
		for _, err := range errs {
			got := withCode(err)
			if status, _ := errors.AsType[cli.StatusError](got); status.StatusCode != want || want != 0 && got.Error() != err.Error() {
				t.Errorf("%v: got %v, %d, want %d", err, got, status.StatusCode, want)
			}
		}
	}
}

func TestLine(t *testing.T) {
	r := prebuild.Result{Repo: "https://h/app", Commit: "0123456789abcdef", Did: prebuild.Setup}
	for want, report := range map[string]prebuild.Report{
		"https://h/app ready: 0123456789ab, did setup":                          {State: prebuild.Ready, Result: r},
		"https://h/app old: running the setup command at 0123456789ab: because": {State: prebuild.Old, Result: r, Why: "because"},
		"https://h/app failed: broken":                                          {State: prebuild.Failed, Result: r, Error: "broken"},
		"https://h/app failed: broken; it was ready for fedcba987654":           {State: prebuild.Failed, Result: r, Error: "broken", Good: "fedcba9876543210"},
	} {
		if got := line(report); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestQuiet checks that with --quiet standard output has the mounts alone, and standard error what failed.
func TestQuiet(t *testing.T) {
	var out, errs bytes.Buffer
	docker, err := command.NewDockerCli(command.WithOutputStream(&out), command.WithErrorStream(&errs))
	if err != nil {
		t.Fatal(err)
	}
	print, err := (&flagSet{quiet: true}).printer(&session.Session{Docker: docker})
	if err != nil {
		t.Fatal(err)
	}
	j := prebuild.Job{Repo: "https://h/app", Options: map[string]string{"warm": "w"}}
	r := prebuild.Report{Job: j, State: prebuild.Old, Result: prebuild.Result{Repo: j.Repo}}
	ready, failed := r, r
	ready.State, failed.State, failed.Err = prebuild.Ready, prebuild.Failed, errors.New("broken")
	for _, r := range []prebuild.Report{r, ready, failed} {
		if err := print(r); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); !strings.HasPrefix(got, "type=volume,") || strings.Count(got, "\n") != 1 {
		t.Errorf("standard output has %q", got)
	}
	if got, want := errs.String(), "https://h/app failed: broken\n"; got != want {
		t.Errorf("standard error has %q, want %q", got, want)
	}
}

func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := &lines{prefix: "a | ", lock: new(sync.Mutex), out: &out}
	long := strings.Repeat("x", maxLine)
	for _, part := range []string{"on", "e\ntwo\n\nth", "ree\x1b\n", long + "y\n", "end"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("got %d and %v", n, err)
		}
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	want := "a | one\na | two\na | \na | three\\u001b\na | " + long + "y\na | end\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%.200q, want\n%.200q", got, want)
	}
	out.Reset()
	l.Write([]byte(long + long))
	if got := out.String(); got != "a | "+long+"\na | "+long+"\n" {
		t.Errorf("got %.100q", got)
	}
}

func TestServe(t *testing.T) {
	m := prebuild.NewMetrics([]prebuild.Job{{Repo: "https://h/app"}})
	if _, _, err := serve("nowhere", m); err == nil {
		t.Error("an address without a port is no error")
	}
	at, done, err := serve("127.0.0.1:0", m)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	for path, want := range map[string]string{"/metrics": `helmdeck_repos_prebuild_ready_timestamp_seconds{options="",repo="https://h/app"} 0`, "/": "404"} {
		answer, err := http.Get("http://" + at + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: got\n%s", path, text)
		}
	}
}
