package git

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/proc"
	"github.com/helmdeck/repos/tests/testgit"
)

func TestThreads(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		processors int
		memory     int64
		want       int
	}{
		{1, 4 * gib, 1}, {2, 4 * gib, 2}, {3, 4 * gib, 3}, {4, 4 * gib, 3}, {5, 4 * gib, 3}, {6, 4 * gib, 3}, {16, 4 * gib, 8},
		{39, 8 * gib, 19}, {40, 8 * gib, 20}, {200, 8 * gib, 20}, {200, 4 * gib, 16}, {16, gib, 4}, {16, 256 << 20, 1}, {16, 1, 1},
	} {
		if got := threadsOf(tt.processors, tt.memory); got != tt.want {
			t.Errorf("%d processors, %d MiB: %d threads, want %d", tt.processors, tt.memory>>20, got, tt.want)
		}
	}
}

func TestCrowdNice(t *testing.T) {
	for _, tt := range []struct{ threads, processors, want int }{
		{1, 1, 0}, {2, 1, 3}, {8, 1, 9}, {8, 4, 3}, {2, 8, 0}, {20, 1, 13},
	} {
		if got := crowdNice(tt.threads, tt.processors); got != tt.want {
			t.Errorf("%d threads on %d processors: %d, want %d", tt.threads, tt.processors, got, tt.want)
		}
	}
}

// sets has the number of processors that a thread may use, by its ID.
type sets map[int]int

// with returns how many threads may use n processors.
func (s sets) with(n int) (count int) {
	for _, processors := range s {
		if processors == n {
			count++
		}
	}
	return count
}

// setsOf returns the sets of all threads of a process group, and how many its largest process has.
func setsOf(group int) (s sets, largest int) {
	s = make(sets)
	for _, pid := range proc.All() {
		if of, err := syscall.Getpgid(pid); err != nil || of != group {
			continue
		}
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // empty if it has ended
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			var set unix.CPUSet
			if unix.SchedGetaffinity(tid, &set) == nil {
				s[tid] = set.Count()
			}
		}
		largest = max(largest, len(tasks))
	}
	return s, largest
}

// nicer returns how many threads of a process group are nicer than its leader.
func nicer(group int, s sets) (n int) {
	leader, _ := unix.Getpriority(unix.PRIO_PROCESS, group)
	for tid := range s {
		if prio, err := unix.Getpriority(unix.PRIO_PROCESS, tid); err == nil && prio < leader { // 20 minus nice
			n++
		}
	}
	return n
}

// TestThreadsGiveWay checks that all threads of a git that resolves deltas keep to one processor while
// others have slots for the rest, and get all of them again, and that only they become nicer. A stderr that takes nothing stops the
// threads of index-pack at their first delta.
func TestThreadsGiveWay(t *testing.T) {
	t.Parallel()
	processors := runtime.NumCPU()
	if processors < 2 {
		t.Fatal("this test needs two processors")
	}
	dir := owned(t, fetcher)
	pack := packWithDeltas(t, dir)
	full := filepath.Join(dir, "stderr")
	open := fill(t, full)
	g, scriptDir := script(t, fmt.Sprintf(`cd %s && git init -q --bare new && echo $$ > group
echo 'Resolving deltas:   0%% (0/9)' >&2
git "$@" --git-dir=new index-pack --stdin --show-resolving-progress < %s 2> %s`, dir, pack, full))
	one := work.Limits{Slots: processors, PerSubject: processors}
	s := work.NewScheduler([3]work.Limits{one, one, one})
	g.config.Scheduler = s
	ended := make(chan error, 1)
	go func() {
		_, err := g.Run(t.Context(), Command{
			Op: "try", Dir: "/", UID: g.config.UID, GID: g.config.GID, Read: []string{scriptDir}, Write: []string{dir},
			remote: true, fetches: true,
		})
		ended <- err
	}()
	await := func(what string, want, nice int) {
		t.Helper()
		for {
			if len(ended) > 0 {
				t.Fatalf("%s: the command has ended: %v", what, <-ended)
			}
			id, _ := os.ReadFile(filepath.Join(dir, "group")) // empty before the script has begun
			group, _ := strconv.Atoi(strings.TrimSpace(string(id)))
			if got, threads := setsOf(group); threads == 1+g.config.threads() && len(got) == got.with(want) && nicer(group, got) == nice {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	await("alone", processors, 0)
	for range 2 {
		var others []*work.Slot
		for range processors - 1 {
			slot, err := s.Acquire(work.WithOwner(t.Context(), work.Owner{Subject: "another"}), work.CPU, false)
			if err != nil {
				t.Fatal(err)
			}
			others = append(others, slot)
		}
		await("beside others", 1, 1+g.config.threads())
		for _, slot := range others {
			slot.Release()
		}
		await("alone again", processors, 1+g.config.threads())
	}
	open()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if load := s.Load()[work.CPU]; load.Held != 0 {
		t.Errorf("%d slots are held", load.Held)
	}
}

// fill makes a FIFO that takes no more bytes until open is called.
func fill(t *testing.T, path string) (open func()) {
	t.Helper()
	fd := int(fifo(t, path, os.O_RDWR).Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	until := func(step func(int, []byte) (int, error)) {
		for {
			if _, err := step(fd, make([]byte, 4096)); err == syscall.EAGAIN {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	until(syscall.Write)
	return func() { until(syscall.Read) }
}

// packWithDeltas makes a pack in dir, which refers to nothing outside, and returns its path.
func packWithDeltas(t *testing.T, dir string) string {
	t.Helper()
	repository := filepath.Join(dir, "old")
	if _, err := gitserver.Generate(repository, gitserver.Spec{Seed: 1, Files: 50, Commits: 50, Changes: 5, Grow: true}); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(repository + "/objects/pack/*.pack")
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs: %q, %v", packs, err)
	}
	testgit.Git(t, "", "--git-dir="+repository, "fsck")
	return packs[0]
}
