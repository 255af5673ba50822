package tests

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// agentLoops are the examples that start several agents, with the program that runs each.
var agentLoops = map[string][]string{
	"shell":  {"bash", "../examples/agents/loop.sh"},
	"python": {"/usr/bin/python3", "-B", "../examples/agents/loop.py"}, // Debian's python3, which has python3-docker
}

// agentLoop returns a command that runs a loop, with docker's command and its plugin repos. It gives the containers the
// host's network, because the engine has no other, and lets SIGINT end the loop even if the test itself was started in
// the background.
func (e *engine) agentLoop(t *testing.T, loop []string, env ...string) *exec.Cmd {
	t.Helper()
	config := t.TempDir()
	program, err := filepath.Abs("../build/docker-repos")
	if err := errors.Join(err, os.Mkdir(config+"/cli-plugins", 0o755), os.Symlink(program, config+"/cli-plugins/docker-repos")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("env", append([]string{"--default-signal=INT"}, loop...)...)
	cmd.Env = append(e.Command().Env, append([]string{"IMAGE=" + image, "NETWORK=host", "DOCKER_CONFIG=" + config}, env...)...)
	return cmd
}

// wantNoAgents checks that no container and no volume of a loop with this subject is left.
func (e *engine) wantNoAgents(t *testing.T, subject string) {
	t.Helper()
	for _, v := range e.volumes(t) {
		if !strings.HasPrefix(v, "agents-") {
			continue
		}
		// Another test may remove a volume of its own at this moment.
		if out, err := e.Try("volume", "inspect", "--format", "{{.Status.subject}}", v); err == nil && out == subject {
			t.Errorf("the volume %s is left", v)
		}
	}
	for id := range strings.FieldsSeq(e.docker(t, "ps", "--all", "--quiet", "--filter", "label=repos-example")) {
		if out, err := e.Try("inspect", "--format", "{{.Config.Env}} {{.Config.Cmd}}", id); err == nil && strings.Contains(out, subject) {
			t.Errorf("a container is left: %s", out)
		}
	}
}

// Ten agents work on a private repository at the same time, and the work of each is pushed, also of one that fails and not
// of one that commits nothing. The containers have no network, and the subject has a space and a comma.
func TestAgentLoop(t *testing.T) {
	t.Parallel()
	for name, loop := range agentLoops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, r := shared(t), newRemote(t)
			owner := "team a, " + subject(t)
			login := gitserver.Login{User: "ada", Password: "of the agents"}
			r.Protect(app, login)
			credential := api.PutCredential{Kind: api.HTTPS, Scope: r.url, Subject: owner, User: login.User, Secret: login.Password, Allow: "push"}
			if err := e.admin(t).PutCredential(t.Context(), "agents-"+name, credential); err != nil {
				t.Fatal(err)
			}
			work := `: "` + owner + `"; [ "$AGENT" != 5 ] || exit 0; echo "$AGENT" >"work of $AGENT"; git add --all; git commit -qm "by $AGENT"; [ "$AGENT" != 7 ]`
			cmd := e.agentLoop(t, loop, "NETWORK=none", "REPO="+r.url, "REF=main", "SUBJECT="+owner, "RESULTS="+filepath.Join(t.TempDir(), "ten results"), "WORK="+work)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 1 {
				t.Fatalf("%v, want exit code 1 because agent 7 fails\n%s", err, out)
			}
			if got := regexp.MustCompile(`(?m)^agent .* failed with exit code .*$`).FindAllString(string(out), -1); len(got) != 1 ||
				!strings.HasPrefix(got[0], "agent 7 failed with exit code 1: see ") {
				t.Errorf("failed: %q, want agent 7 alone", got)
			}
			for i := 1; i <= 10; i++ {
				branch := fmt.Sprintf("agents/%d", i)
				if i == 5 {
					if !strings.Contains(string(out), "agent 5: no commits\n") || hostGit(t, r.Path(app), "branch", "--list", branch) != "" {
						t.Errorf("agent 5 committed nothing, and has a branch, or it is not said:\n%s", out)
					}
					continue
				}
				got := hostGit(t, r.Path(app), "log", "-1", "--format=%P %an %s", branch)
				if want := fmt.Sprintf("%s agent %d by %d", r.head, i, i); got != want {
					t.Errorf("%s: got %q, want %q", branch, got, want)
				}
			}
			if got := r.Stats(app).Clones; got != 1 {
				t.Errorf("the server saw %d clones, want the plugin's alone", got)
			}
			e.wantNoAgents(t, owner)
		})
	}
}

// After Ctrl-C, which reaches all processes of the terminal, no container and no volume is left, and what the agents
// changed is in checkpoints.
func TestAgentLoopInterrupted(t *testing.T) {
	t.Parallel()
	for name, loop := range agentLoops {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, r := shared(t), newRemote(t)
			log, err := os.Create(filepath.Join(t.TempDir(), "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			cmd := e.agentLoop(t, loop, "REPO="+r.url, "SUBJECT="+subject(t), "AGENTS=4", "RESULTS="+t.TempDir(),
				"WORK=: "+subject(t)+"; echo >changed; exec sleep 1000000")
			cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			defer syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			// The second agent runs; others may be on their way.
			wait.For(t, "an agent", func() error {
				files, err := filepath.Glob(e.Data("clones", subject(t), "*", "workspaces", "*", "upper", "changed"))
				if err == nil && len(files) < 2 {
					text, _ := os.ReadFile(log.Name())
					err = fmt.Errorf("%d agents have begun\n%s", len(files), text)
				}
				return err
			})
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			select {
			case err = <-ended:
			case <-time.After(wait.Most(t)):
				text, _ := os.ReadFile(log.Name())
				t.Fatalf("the loop did not end\n%s", text)
			}
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 130 {
				text, _ := os.ReadFile(log.Name())
				t.Errorf("%v, want exit code 130\n%s", err, text)
			}
			e.wantNoAgents(t, subject(t))
			wait.For(t, "the checkpoints", func() error {
				list, err := e.Try("volume", "ls", "--quiet", "--filter", "name=^agents-")
				if err == nil {
					checkpoints, _ := filepath.Glob(e.Data("clones", subject(t), "*", "workspaces", "*"))
					if len(checkpoints) < 2 {
						err = fmt.Errorf("%d checkpoints; volumes %q", len(checkpoints), list)
					}
				}
				return err
			})
		})
	}
}
