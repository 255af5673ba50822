package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/work"
)

// niceness returns the nice value that a command runs at.
func niceness(t *testing.T, c Command) int {
	t.Helper()
	g, dir := script(t, "cat /proc/self/stat")
	c.Op, c.Dir, c.UID, c.GID, c.Read = "try", "/", g.config.UID, g.config.GID, []string{dir, "/proc"}
	out, err := g.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(out), ") ") // the process's name may have spaces
	n, err := strconv.Atoi(strings.Fields(rest)[16])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestHeavyWorkGivesWay(t *testing.T) {
	t.Parallel()
	question, work := niceness(t, Command{question: true}), niceness(t, Command{})
	if want := min(question+heavyNice, nicest); work != want {
		t.Errorf("nice values: %d for work and %d for a question, want %d for work", work, question, want)
	}
}

// TestLastingWork: only what no mount waits for gets less of the machine when it lasts.
func TestLastingWork(t *testing.T) {
	t.Parallel()
	ctx := work.WithOwner(t.Context(), work.Owner{Name: "the test"})
	if l := limitsOf(ctx, Command{}, Config{}); l.Lasting != 0 {
		t.Errorf("nice value %d for a job that others may wait for", l.Lasting)
	}
	work.JobOf(ctx).GivesWay = true
	if l := limitsOf(ctx, Command{}, Config{}); l.Lasting != nicest {
		t.Errorf("nice value %d for a job that gives way, want %d", l.Lasting, nicest)
	}
}

func TestNicer(t *testing.T) {
	t.Parallel()
	var got []int
	for share := range 6 {
		got = append(got, niceOf(share+1))
	}
	if want := []int{5, 10, 15, 19, 19, 19}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLimitIsNamed checks that the error names the limit that the command itself, or a process
// that it started, has exceeded.
func TestLimitIsNamed(t *testing.T) {
	t.Parallel()
	const (
		spin   = "while :; do :; done"
		asGit  = `; s=$?; echo "error: index-pack died of signal $((s-128))" >&2; echo "fatal: fetch-pack: invalid index-pack output" >&2; exit 128`
		second = "it takes more than 1s of processor time (setting WORK_TIMEOUT)"
	)
	for _, tt := range []struct{ name, text, want string }{
		{"processor time", spin, second},
		{"processor time of a child", "sh -c '" + spin + "'" + asGit, second},
		{"processor time, the signal is ignored", "trap '' XCPU; " + spin, second},
		{"killed", "kill -KILL $$", "the kernel ended it, as it does when memory is short"},
		{"a child is killed", "sh -c 'kill -KILL $$'" + asGit, "the kernel ended it, as it does when memory is short"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, dir := script(t, tt.text)
			g.config.WorkCPU = time.Second
			_, err := g.Run(t.Context(), Command{Op: "try", Dir: "/", UID: g.config.UID, GID: g.config.GID, Read: []string{dir}})
			var e *giterror.Error
			if !errors.As(err, &e) || e.Kind != giterror.KindLimit || e.Detail != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestFetchLimitNamesItsSetting checks the setting for a command that fetches or pushes, and that
// the limit of a question, which no setting changes, names none.
func TestFetchLimitNamesItsSetting(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		c    Command
		want string
	}{
		{"from a remote", Command{remote: true}, "it takes more than 1s of processor time (setting FETCH_CPU_TIME)"},
		{"index-pack of a fetch of ours", Command{fetches: true}, "it takes more than 1s of processor time (setting FETCH_CPU_TIME)"},
		{"a question", Command{remote: true, question: true}, "it takes more than 20s of processor time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, dir := script(t, "kill -XCPU $$") // as the kernel does at the limit
			g.config.FetchCPU = time.Second
			c := tt.c
			c.Op, c.Dir, c.UID, c.GID, c.Read = "try", "/", g.config.UID, g.config.GID, []string{dir}
			_, err := g.Run(t.Context(), c)
			var e *giterror.Error
			if !errors.As(err, &e) || e.Kind != giterror.KindLimit || e.Detail != tt.want {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWordsAloneAreNoLimit(t *testing.T) {
	t.Parallel()
	g, dir := script(t, `echo "error: index-pack died of signal 24" >&2; exit 128`)
	_, err := g.Run(t.Context(), Command{Op: "try", Dir: "/", UID: g.config.UID, GID: g.config.GID, Read: []string{dir}})
	if got := giterror.KindOf(err); got != giterror.KindOther {
		t.Errorf("got %v, want %q: no processor time was used", err, giterror.KindOther)
	}
}

// hugeBlob adds a file of zeros to a store, and returns its ID.
func hugeBlob(t *testing.T, store string, bytes int64) string {
	t.Helper()
	path := filepath.Join(scratch(t), "zeros")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, bytes); err != nil {
		t.Fatal(err)
	}
	id := gitAt(t, store, "-c", "core.compression=1", "hash-object", "-w", "--no-filters", path)
	if err := chownAll(store); err != nil {
		t.Fatal(err)
	}
	return id
}

// chownAll makes fetcher the owner of all files of a store.
func chownAll(store string) error {
	return filepath.WalkDir(store, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, fetcher, fetcher))
	})
}

// TestLimitIsNoDamage checks that a store does not count as damaged if git exceeds a limit
// while it checks the store.
func TestLimitIsNoDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	g := newGit(t)
	dir := store(t, g)
	for i := range 4 { // inflating and hashing all takes more than a second
		hugeBlob(t, dir, 400<<20+int64(i))
	}
	for _, tt := range []struct {
		memory int64
		cpu    time.Duration
		want   string
	}{
		{64 << 20, time.Minute, "it takes more than 64 MiB of memory (setting GIT_MEMORY)"},
		{defaultMemory, 500 * time.Millisecond, "it takes more than 500ms of processor time (setting WORK_TIMEOUT)"}, // the kernel's limit is rounded up to a second
	} {
		limited := *g
		limited.config.Memory, limited.config.WorkCPU = tt.memory, tt.cpu
		err := limited.Check(t.Context(), dir)
		var e *giterror.Error
		if !errors.As(err, &e) || e.Kind != giterror.KindLimit || e.Detail != tt.want {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
}

// TestMessagesAreBounded: messages without an end, as a remote may send, end the command.
func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	g, dir := script(t, `exec yes "remote: still at work" >&2`)
	c := Command{Op: "try", Dir: "/", UID: g.config.UID, GID: g.config.GID, Read: []string{dir, "/usr", "/dev"}}
	lines := 0
	c.Stderr = func(string) { lines++ }
	_, err := g.Run(t.Context(), c)
	if giterror.KindOf(err) != giterror.KindLimit || !strings.Contains(err.Error(), "more than 16 MiB of messages") {
		t.Errorf("without an end: %v", err)
	}
	if n := lines * len("remote: still at work\n"); n > 2*maxSaid {
		t.Errorf("%d bytes were read", n)
	}
}

// TestSSHIsApart: what ssh prints, which a server can choose, is in no line of git's, and is bounded.
func TestSSHIsApart(t *testing.T) {
	t.Parallel()
	const fake = "Writing objects:  50% (1/2), 1.00 GiB"
	a, err := newAside()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	a.listen(func() { t.Error("a line is too much") })
	c := exec.Command("git", "ls-remote", "ssh://h/r")
	c.ExtraFiles = []*os.File{a.write}
	c.Env = []string{"PATH=/usr/bin:/bin", "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND=sh -c 'printf %s \"" + fake + "\" >&2; exit 255' -o 'HostKeyAlias=[h]:1'" + toAside}
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Could not read from remote") || strings.Contains(string(out), "Writing") {
		t.Errorf("git says %q, %v", out, err)
	}
	if got := a.words(); got != fake+"\n" {
		t.Errorf("ssh says %q, want %q", got, fake)
	}
	if many, err := newAside(); err != nil {
		t.Error(err)
	} else {
		defer many.close()
		over := false
		many.listen(func() { over = true })
		for range maxSaid>>20 + 1 {
			if _, err := many.write.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if got := many.words(); !over || len(got) > maxStderr+1 {
			t.Errorf("%d bytes of very many are kept, and it is ended: %v", len(got), over)
		}
	}
	if got := (*aside)(nil).words(); got != "" {
		t.Errorf("without ssh: %q", got)
	}
}
