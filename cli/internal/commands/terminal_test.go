package commands

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/helmdeck/repos/api"
)

// onTerminal runs the command on a terminal where a user has typed something, and returns all that is shown.
func onTerminal(t *testing.T, socket, typed string, args ...string) result {
	t.Helper()
	screen, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer screen.Close()
	shown := make(chan string, 1)
	go func() {
		data, _ := io.ReadAll(screen) // it ends with an error when the terminal is closed
		shown <- string(data)
	}()
	if _, err := io.WriteString(screen, typed); err != nil {
		t.Fatal(err)
	}
	failed := runOn(t, socket, tty, tty, tty, args...)
	tty.Close()
	return result{out: <-shown, failed: failed}
}

// TestTerminalAndPipe checks what differs between a terminal and a pipe: questions, control characters, binary output, and a
// list that is shown again.
func TestTerminalAndPipe(t *testing.T) {
	p := looked()
	p["GET /v1/workspaces/{id}/diff"] = func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("+\x1b[31mred\n")) }
	p["POST /v1/prune"] = api.Pruned{Evicted: []api.Eviction{}}
	asked := 0
	p["GET /v1/work"] = func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked%2 == 0 { // each run of ps --watch ends with the second look
			refuse(http.StatusServiceUnavailable, api.ErrorAnswer{Error: "it stops"})(w, r)
			return
		}
		w.Write([]byte(`{"work":[]}`))
	}
	socket := p.serve(t)
	for _, c := range []struct {
		args                 string
		shown, shownFailed   string // on a terminal
		piped, pipedFailed   string
		notShown, neverPiped string
	}{
		{args: "diff one", shown: `+\u001b[31mred`, notShown: "\x1b", piped: "+\x1b[31mred\n"},
		{args: "export -o - one", shownFailed: "standard output is a terminal", piped: "tar of a1"},
		{args: "prune", shown: "Are you sure you want to continue? [y/N]", notShown: "nobody", piped: "[y/N]", pipedFailed: "nobody answered: --force goes on without a question"},
		{args: "ps --watch", shown: "\x1b[H\x1b[2JWORKSPACE", shownFailed: "it stops", piped: "WORKSPACE", pipedFailed: "it stops", neverPiped: "\x1b"},
	} {
		for _, run := range []struct {
			where              string
			got                result
			want, failed, none string
		}{
			{"on a terminal", onTerminal(t, socket, "y\n", strings.Fields(c.args)...), c.shown, c.shownFailed, c.notShown},
			{"in a pipe", runAt(t, socket, "", strings.Fields(c.args)...), c.piped, c.pipedFailed, c.neverPiped},
		} {
			switch failed := run.got.failed; {
			case run.failed == "" && failed != nil, run.failed != "" && (failed == nil || !strings.Contains(failed.Error(), run.failed)):
				t.Errorf("%s %s: got %v, want %q", c.args, run.where, failed, run.failed)
			case !strings.Contains(run.got.out, run.want), run.none != "" && strings.Contains(run.got.out, run.none):
				t.Errorf("%s %s: got %q, want %q and no %q", c.args, run.where, run.got.out, run.want, run.none)
			}
		}
	}
}
