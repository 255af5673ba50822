package checkpoints

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/invariant"
)

// checkpoints returns all checkpoints, the oldest first.
func (w *world) checkpoints() []api.Checkpoint {
	w.Helper()
	list, err := w.d.Admin.Checkpoints(w.Context(), api.Filter{})
	if err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(list, func(a, b api.Checkpoint) int { return cmp.Or(a.EndedAt.Compare(b.EndedAt), cmp.Compare(a.ID, b.ID)) })
	return list
}

// kept is how many checkpoints TestRandom has at a time, above and besides those on which others stand.
const kept = 20

// maxChain is on how many checkpoints a workspace of TestRandom stands at most.
const maxChain = 6

// memory is how much more memory the plugin may have at the end than after the first tenth, in KiB: its garbage collector
// lets the heap double.
const memory = 40 << 10

// TestRandom: each checkpoint with a pause is equal to what its workspace had then, file by file, and nothing of 500 is left
// but what the user keeps. Their workspaces are of each mode and of several users, mounted and parked, new ones and ones that
// began with a checkpoint.
func TestRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	onEach(t, func(w *world) {
		t := w.T
		t.Logf("-rounds %d -seed %d", *rounds, *seed)
		type workspace struct {
			volume
			group    *freezer
			options  []string
			uid, gid int
			chain    int
			kill     func() // the writer
		}
		var all []*workspace
		scribbles := *seed
		start := func(s *workspace) {
			t.Helper()
			scribbles++
			cmd, out := s.group.command(s.dir, s.uid, s.gid, scribble, "/mnt", ".git", fmt.Sprint(scribbles))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			s.kill = func() { s.group.kill(); <-ended }
			go func() {
				defer close(ended)
				if cmd.Wait(); cmd.ProcessState.ExitCode() >= 0 { // not killed
					t.Errorf("the writer: %s", out)
				}
			}()
		}
		for _, s := range []workspace{
			{options: []string{"mode", "private"}},
			{options: []string{"mode", "shared", "uid", "1000", "gid", "1001"}, uid: 1000, gid: 1001},
			{options: []string{"mode", "keep", "uid", "1000", "gid", "1000"}, uid: 1000, gid: 1000},
			{options: []string{"mode", "keep"}},
		} {
			s.volume, s.group = w.start(s.options...), newFreezer(t)
			start(&s)
			all = append(all, &s)
		}
		first := w.start("mode", "private") // what all need is there then
		w.end(first)
		open, err := invariant.Descriptors(w.d.Pid())
		fine(t, err)
		var rss int64
		var paused []time.Duration
		for round := range *rounds {
			s := all[round%len(all)]
			isKept := s.options[1] == "keep"
			what := fmt.Sprintf("round %d, %q", round, s.options)
			var want map[string]string
			var made api.Checkpoint
			if isKept && round/len(all)%4 == 3 { // it is parked
				s.kill()
				want = w.describe(s.dir)
				w.unmount(s.volume)
				d := w.draft(s.volume)
				w.catchUp(d)
				made = w.keep(d)
				w.mount(&s.volume)
				w.same(what+", mounted again", want, s.dir)
				start(s)
			} else {
				d := w.draft(s.volume)
				s.group.freeze()
				begun := time.Now()
				w.catchUp(d)
				paused = append(paused, time.Since(begun))
				want = w.describe(s.dir)
				s.group.thaw()
				made = w.keep(d)
			}
			fork := w.start("from", made.ID)
			w.same(what, want, fork.dir)
			if round/len(all)%4 != 2 {
				w.end(fork)
			} else { // the writer goes on in what begins with the checkpoint
				s.kill()
				w.end(fork)
				w.end(s.volume)
				if s.chain++; s.chain <= maxChain {
					s.volume = w.start("from", made.ID, "mode", s.options[1])
				} else {
					s.volume, s.chain = w.start(s.options...), 0
				}
				start(s)
			}
			w.remove(kept)
			if (round+1)%50 == 0 {
				t.Logf("%d checkpoints", round+1)
			}
			if round == *rounds/10 {
				rss, err = invariant.Status(w.d.Pid(), "RssAnon")
				fine(t, err)
			}
		}
		for _, s := range all {
			s.kill()
			w.unmount(s.volume)
		}
		after, err := invariant.Status(w.d.Pid(), "RssAnon")
		fine(t, err)
		if after > rss+memory {
			t.Errorf("the plugin has %d KiB of memory, and had %d", after, rss)
		}
		slices.Sort(paused)
		t.Logf("the second pass took %v, at most %v; memory %d KiB, then %d", paused[len(paused)/2], paused[len(paused)-1], rss, after)
		w.nothingLeft(open + idle)
	})
}

// idle is how many connections may be open at the end that were not at the beginning: of this process to the plugin's two
// sockets, and to the server of the repository.
const idle = 8
