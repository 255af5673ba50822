package tests

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// branch is a branch that moves.
type branch struct {
	name    string
	remote  remote
	subject string

	// ended is the number of pushes that have ended. A container that starts later must see the
	// last of them or a newer one.
	ended atomic.Int64
	// mu is locked while a commit is made, because a container may see it at once.
	mu      sync.Mutex
	commits []commit // the oldest first
}

// commit is a commit of a branch, with the portrait of its tree in a plain clone.
type commit struct{ id, portrait string }

// options returns those of a volume whose Mounts all ask, because containers start again soon after
// its Create.
func (b *branch) options() []string {
	return []string{"repo=" + b.remote.url, "ref=" + b.name, "subject=" + b.subject, "refresh=always"}
}

// push changes a file, adds one, and removes one that an earlier push has added.
func (b *branch) push(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.commits)
	text := fmt.Sprintf("%d of %s of %s\n", n, b.name, b.subject)
	changes := []gitserver.Change{{Path: "README.md", Content: text}, {Path: fmt.Sprintf("new/%d/file", n), Content: text}}
	if n >= 3 {
		changes = append(changes, gitserver.Change{Path: fmt.Sprintf("new/%d/file", n-3), Delete: true})
	}
	id := b.remote.commit(t, b.name, changes...)
	b.ended.Add(1)
	b.commits = append(b.commits, commit{id, runInPlainClone(t, b.remote.url, b.name, treePortrait)})
}

// check checks the portrait that a container saw, and returns its commit. ended is the number of
// pushes that had ended when the workspace was new. known is the commit of the workspace if an
// earlier container has seen it, or empty.
func (b *branch) check(saw string, ended int64, known string) (id string, err error) {
	first, _, _ := strings.Cut(saw, "\n")
	id = strings.TrimPrefix(first, "commit ")
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, c := range b.commits {
		if c.id != id {
			continue
		}
		g, w := strings.Split(saw, "\n"), strings.Split(c.portrait, "\n")
		switch {
		case saw != c.portrait:
			return id, fmt.Errorf("WRONG TREE of %s: differs from a plain clone:\n only here:  %s\n only there: %s", id, missing(g, w), missing(w, g))
		case known != "" && id != known:
			return id, fmt.Errorf("WRONG COMMIT: the workspace was at %s, and is at %s", known, id)
		case known == "" && int64(i) < ended-1:
			return id, fmt.Errorf("OLD COMMIT: push %d of %s, and %d had ended before the start", i+1, b.name, ended)
		}
		return id, nil
	}
	return id, fmt.Errorf("WRONG TREE: %q was never pushed to %s", first, b.name)
}

// loadLook is the script of every container of the load. It writes to /out/$NAME the portrait of
// its tree, and how many containers have seen the workspace before. Each container leaves that
// number in a file, which is not in the portrait.
const loadLook = `
	cd /w
	seen=$(cat mine 2>/dev/null || echo 0)
	rm -f mine
	{ ` + treePortrait + `
	echo "seen $seen"; } >/out/$NAME.new 2>&1
	echo $((seen + 1)) >mine
	mv /out/$NAME.new /out/$NAME
	exec sleep 1000000
`

// slot has one container of the load, or two that share a workspace. Each step ends its containers
// and starts the next.
type slot struct {
	*load
	n      int
	kind   string // the mode of its volume, or nameless: private, and the engine removes the container and the volume
	random *rand.Rand
	branch *branch
	steps  int
	ids    []string // the IDs of its containers

	// The state that the next container must find in the workspace; commit is empty and seen 0 if
	// the workspace is new.
	commit string
	seen   int
	ended  int64 // branch.ended when the workspace was new
}

func newSlot(l *load, n int) *slot {
	kinds := append([]string{"nameless"}, modes...)
	s := &slot{load: l, n: n, kind: kinds[n%len(kinds)], random: rand.New(rand.NewPCG(uint64(n), 1))}
	s.chooseBranch()
	return s
}

func (s *slot) chooseBranch() { s.branch = s.branches[s.random.IntN(len(s.branches))] }

// step ends the containers of the slot and starts the next, or restarts a container.
func (s *slot) step() error {
	s.steps++
	if s.kind == "private" && s.steps%2 == 0 && len(s.ids) > 0 {
		return s.restart()
	}
	if s.steps%4 == 1 || s.kind == "nameless" || s.kind == "private" {
		if err := s.end(); err != nil {
			return err
		}
		s.chooseBranch()
	} else if err := s.remove(); err != nil {
		return err
	}
	switch s.kind {
	case "nameless":
		return s.run("--rm")
	case "private":
		return s.create()
	case "shared":
		if err := s.run(); err != nil {
			return err
		}
	}
	return s.run()
}

// args returns the arguments of docker run and docker create for the next container.
func (s *slot) args(flags ...string) []string {
	name, options := "", s.branch.options()
	if s.kind != "nameless" {
		name, options = s.volume(), append(options, "mode="+s.kind)
	}
	flags = append(flags, "--network", "container:"+s.network, "--stop-signal", "KILL", "--env", "NAME="+s.outName(), "--volume", s.out+":/out",
		"--mount", mount(name, options...))
	return append(flags, image, "sh", "-c", loadLook)
}

func (s *slot) volume() string { return fmt.Sprintf("%s-%d", s.kind, s.n) }

// outName returns the name of the file to which the next container writes.
func (s *slot) outName() string { return fmt.Sprintf("%s-%d", s.volume(), len(s.ids)) }

// run starts a new container with docker run.
func (s *slot) run(flags ...string) error {
	s.noteEnded()
	began := time.Now()
	id, err := s.e.Try(append([]string{"run", "--detach"}, s.args(flags...)...)...)
	if err != nil {
		return err
	}
	s.addStart(time.Since(began))
	return s.awaitLook(id)
}

// create starts a new container with docker create and docker start. Because of the working
// directory at the mount point the engine mounts the volume in docker create too.
func (s *slot) create() error {
	s.noteEnded()
	id, err := s.e.Try(append([]string{"create"}, s.args("--workdir", "/w")...)...)
	if err != nil {
		return err
	}
	if _, err := s.e.Try("start", id); err != nil {
		return err
	}
	s.addStart(0)
	return s.awaitLook(id)
}

// restart stops a container and starts it again, in a new workspace.
func (s *slot) restart() error {
	id := s.ids[0]
	if _, err := s.e.Try("stop", id); err != nil {
		return err
	}
	s.ids, s.seen, s.commit = nil, 0, ""
	s.noteEnded()
	if _, err := s.e.Try("start", id); err != nil {
		return err
	}
	s.addStart(0)
	return s.awaitLook(id)
}

// noteEnded notes the number of pushes that have ended if the next container gets a new workspace.
func (s *slot) noteEnded() {
	if s.seen == 0 {
		s.ended = s.branch.ended.Load()
	}
}

// awaitLook waits until a container has written what it sees, and checks that.
func (s *slot) awaitLook(id string) error {
	path := filepath.Join(s.out, s.outName())
	var text []byte
	if err := wait.Until(s, func() (err error) {
		text, err = os.ReadFile(path)
		return err
	}); err != nil {
		logs, logErr := s.e.Try("logs", id)
		return errors.Join(err, fmt.Errorf("the container's log: %q", logs), logErr)
	}
	s.ids = append(s.ids, id)
	saw, seen, _ := strings.Cut(string(text), "seen ")
	commit, err := s.branch.check(strings.TrimSpace(saw), s.ended, s.commit)
	if got := strings.TrimSpace(seen); got != fmt.Sprint(s.seen) {
		err = errors.Join(err, fmt.Errorf("WRONG WORKSPACE: %s containers have seen it before, want %d", got, s.seen))
	}
	s.commit = commit
	s.seen++
	return errors.Join(err, os.Remove(path))
}

// remove removes the containers of the slot. A kept workspace stays.
func (s *slot) remove() error {
	if len(s.ids) == 0 {
		return nil
	}
	_, err := s.e.Try(append([]string{"stop"}, s.ids...)...)
	if err == nil && s.kind != "nameless" {
		_, err = s.e.Try(append([]string{"rm"}, s.ids...)...)
	}
	s.ids = nil
	if s.kind != "keep" {
		s.seen, s.commit = 0, ""
	}
	return err
}

// end removes the containers of the slot and its volume.
func (s *slot) end() error {
	had := len(s.ids) > 0
	err := s.remove()
	if had && err == nil && s.kind != "nameless" {
		_, err = s.e.Try("volume", "rm", s.volume())
	}
	s.seen, s.commit = 0, ""
	return err
}
