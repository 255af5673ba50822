package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLogLinesOfAVolume: from Create to Remove, each line of the log has the ID of the volume,
// and that of the request that led to it, also in the background and for git's commands.
func TestLogLinesOfAVolume(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := startWith(t, scratch(t), func(at *places) { at.idle = true }, "LOG_LEVEL=debug")
	p.waitFor("sweep: done")
	before := len(p.log.since(0))
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	id, _ := p.get("v").Status["volume_id"].(string)
	dir := p.mount("v", "1")
	p.mount("v", "1") // docker cp
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	p.unmount("v", "1")
	p.unmount("v", "1")
	p.waitFor("it is kept as a checkpoint")
	if err := p.Remove(t.Context(), "v"); err != nil {
		t.Fatal(err)
	}
	requests := make(map[string][]string) // of each message
	for _, l := range p.log.since(before) {
		request, _ := l.fields["request"].(string)
		if l.fields["volume_id"] != id || request == "" {
			t.Errorf("%s %v: want volume_id=%s and a request", l.message, l.fields, id)
		}
		requests[l.message] = append(requests[l.message], request)
	}
	count := func(message string, want int) []string {
		t.Helper()
		got := requests[message]
		if len(got) != want {
			t.Fatalf("%d lines %q, want %d", len(got), message, want)
		}
		return got
	}
	if got := count("create: done", 1); got[0] != id {
		t.Errorf("the volume %s was created by request %s", id, got[0])
	}
	mounts, unmounts := count("mount: done", 3), count("unmount: done", 2) // the Mount of docker cp looks the lease up
	if mounts[0] == mounts[1] || mounts[1] != mounts[2] || unmounts[0] == unmounts[1] {
		t.Errorf("requests of the Mounts %q, of the Unmounts %q", mounts, unmounts)
	}
	if got := count("a workspace with changes has ended: it is kept as a checkpoint", 1); got[0] != unmounts[1] {
		t.Errorf("the checkpoint is of request %s, the last Unmount was %s", got[0], unmounts[1])
	}
	count("remove: done", 1)
	if len(requests["git"]) == 0 || len(requests["ls-refs in this process"]) == 0 {
		t.Errorf("no lines of git: %v", requests)
	}
}

// TestLastErrorNamesItsRequest: Status has the ID of the request that failed last, and the log
// has that of a Mount that failed.
func TestLastErrorNamesItsRequest(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	p.mount("v", "1") // what Create began in the background has ended then
	s.Close()
	if err := p.tryMount("v", "2"); err == nil {
		t.Fatal("a mount without a remote succeeded")
	}
	status := p.get("v").Status
	for _, l := range p.log.since(0) {
		if l.message == "mount: failed" && l.fields["request"] == status["last_error_request"] && l.fields["volume_id"] == status["volume_id"] {
			return
		}
	}
	t.Errorf("no line of the log is about the error in %v", status)
}
