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

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/tests/dockerd"
)

// branch is one that moves.
type branch struct {
	name    string
	remote  remote
	subject string

	// ended is how many pushes have ended: a container that starts later sees the last of them, or a newer one.
	ended atomic.Int64
	// mu is held while a commit is made, because a container may see it at once.
	mu      sync.Mutex
	commits []commit // the oldest first
}

// commit is one of a branch, with the portrait of its tree in a plain clone.
type commit struct{ id, portrait string }

func (b *branch) options() []string {
	return []string{"repo=" + b.remote.url, "ref=" + b.name, "subject=" + b.subject}
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
	b.commits = append(b.commits, commit{id, plainly(t, b.remote.url, b.name, treePortrait)})
}

// judge says what is wrong with what a container saw, and returns its commit. So many pushes had ended when the workspace was
// new; known is its commit, if an earlier container has seen it.
func (b *branch) judge(saw string, ended int64, known string) (id string, err error) {
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
	return id, fmt.Errorf("WRONG TREE: nobody has pushed %q to %s", first, b.name)
}

// glance is what every container of the load does first: it writes to /out/$NAME the portrait of its tree and how many
// containers have seen this workspace before. These have left their number in a file, which is no part of the portrait.
const glance = `
	cd /w
	seen=$(cat mine 2>/dev/null || echo 0)
	rm -f mine
	{ ` + treePortrait + `
	echo "seen $seen"; } >/out/$NAME.new 2>&1
	echo $((seen + 1)) >mine
	mv /out/$NAME.new /out/$NAME
	exec sleep 1000000
`

// slot has one container of the load, or two that share a workspace. Each step ends what runs and starts the next.
type slot struct {
	*load
	n      int
	kind   string // the mode of its volume, or nameless: private, and the engine removes container and volume
	random *rand.Rand
	branch *branch
	steps  int
	ids    []string // of its containers

	// What the next container finds in the workspace; of a new one it is nothing.
	commit string
	seen   int
	ended  int64 // of the branch, when the workspace was new
}

func newSlot(l *load, n int) *slot {
	kinds := append([]string{"nameless"}, modes...)
	s := &slot{load: l, n: n, kind: kinds[n%len(kinds)], random: rand.New(rand.NewPCG(uint64(n), 1))}
	s.choose()
	return s
}

func (s *slot) choose() { s.branch = s.branches[s.random.IntN(len(s.branches))] }

func (s *slot) step() error {
	s.steps++
	if s.kind == "private" && s.steps%2 == 0 && len(s.ids) > 0 {
		return s.restart()
	}
	if s.steps%4 == 1 || s.kind == "nameless" || s.kind == "private" {
		if err := s.end(); err != nil {
			return err
		}
		s.choose()
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

// args are those of docker run and create that a container has.
func (s *slot) args(flags ...string) []string {
	name, options := "", s.branch.options()
	if s.kind != "nameless" {
		name, options = s.volume(), append(options, "mode="+s.kind)
	}
	flags = append(flags, "--network", "container:"+s.network, "--stop-signal", "KILL", "--env", "NAME="+s.saw(), "--volume", s.out+":/out",
		"--mount", mount(name, options...))
	return append(flags, image, "sh", "-c", glance)
}

func (s *slot) volume() string { return fmt.Sprintf("%s-%d", s.kind, s.n) }

// saw is the file in which the next container says what it sees.
func (s *slot) saw() string { return fmt.Sprintf("%s-%d", s.volume(), len(s.ids)) }

func (s *slot) run(flags ...string) error {
	s.begin()
	began := time.Now()
	id, err := s.e.Try(append([]string{"run", "--detach"}, s.args(flags...)...)...)
	if err != nil {
		return err
	}
	s.start(time.Since(began))
	return s.looked(id)
}

// create is run in two commands. With a working directory at the mount point the engine mounts at the first one, too.
func (s *slot) create() error {
	s.begin()
	id, err := s.e.Try(append([]string{"create"}, s.args("--workdir", "/w")...)...)
	if err != nil {
		return err
	}
	if _, err := s.e.Try("start", id); err != nil {
		return err
	}
	s.start(0)
	return s.looked(id)
}

// restart starts the same container again, in a new workspace.
func (s *slot) restart() error {
	id := s.ids[0]
	if _, err := s.e.Try("stop", id); err != nil {
		return err
	}
	s.ids, s.seen, s.commit = nil, 0, ""
	s.begin()
	if _, err := s.e.Try("start", id); err != nil {
		return err
	}
	s.start(0)
	return s.looked(id)
}

// begin comes before the start of a container.
func (s *slot) begin() {
	if s.seen == 0 {
		s.ended = s.branch.ended.Load()
	}
}

// looked waits until a container has looked at its tree, and judges it.
func (s *slot) looked(id string) error {
	path := filepath.Join(s.out, s.saw())
	var text []byte
	if err := dockerd.Poll(patience, func() (err error) {
		text, err = os.ReadFile(path)
		return err
	}); err != nil {
		logs, logErr := s.e.Try("logs", id)
		return errors.Join(err, fmt.Errorf("the container says %q", logs), logErr)
	}
	s.ids = append(s.ids, id)
	saw, seen, _ := strings.Cut(string(text), "seen ")
	commit, err := s.branch.judge(strings.TrimSpace(saw), s.ended, s.commit)
	if got := strings.TrimSpace(seen); got != fmt.Sprint(s.seen) {
		err = errors.Join(err, fmt.Errorf("WRONG WORKSPACE: %s containers have seen it, want %d", got, s.seen))
	}
	s.commit = commit
	s.seen++
	return errors.Join(err, os.Remove(path))
}

// remove ends what runs. What is kept stays.
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

// end ends what runs, with its volume.
func (s *slot) end() error {
	had := len(s.ids) > 0
	err := s.remove()
	if had && err == nil && s.kind != "nameless" {
		_, err = s.e.Try("volume", "rm", s.volume())
	}
	s.seen, s.commit = 0, ""
	return err
}
