package caches

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdisk"
)

// marked and never are the options of a container that prepares dependencies, and of one that uses them.
var marked, never = []string{"warm", "nm", "publish", "marked"}, []string{"warm", "nm", "publish", "never"}

// mark is what a container makes so that others get what it leaves.
const mark = ".git/helmdeck-publish"

// prepare leaves a state in the warm directory, with a manifest, as a package manager does: some directories are replaced,
// and some files in the others.
func (c container) prepare(state string) error {
	nm := filepath.Join(c.dir, "nm")
	lines := []string{state}
	for d := range 10 {
		dir := filepath.Join(nm, fmt.Sprint("d", d))
		if d%2 == 0 {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Join(dir, "lib"), 0o755); err != nil {
			return err
		}
		for f := range 20 {
			name := fmt.Sprintf("d%d/lib/f%d", d, f)
			if d%2 == 0 {
				name += "-" + state
			}
			text := strings.Repeat(name+" of "+state+"\n", 100)
			if err := os.WriteFile(filepath.Join(nm, name), []byte(text), 0o644); err != nil {
				return err
			}
			sum := sha256.Sum256([]byte(text))
			lines = append(lines, name+" "+hex.EncodeToString(sum[:]))
		}
	}
	return os.WriteFile(filepath.Join(nm, "manifest"), []byte(strings.Join(lines, "\n")), 0o644)
}

// state returns the state that the container found, or "". The error says what is not as in the manifest.
func (c container) state() (string, error) {
	nm := filepath.Join(c.dir, "nm")
	manifest, err := os.ReadFile(filepath.Join(nm, "manifest"))
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(nm); errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
	}
	if err != nil {
		return "", err
	}
	lines := strings.Split(string(manifest), "\n")
	want := make(map[string]string)
	for _, line := range lines[1:] {
		name, sum, _ := strings.Cut(line, " ")
		want[name] = sum
	}
	got := make(map[string]string)
	err = filepath.WalkDir(nm, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "manifest" {
			return err
		}
		data, err := os.ReadFile(path)
		sum := sha256.Sum256(data)
		got[strings.TrimPrefix(path, nm+"/")] = hex.EncodeToString(sum[:])
		return err
	})
	if err == nil && !maps.Equal(got, want) {
		err = fmt.Errorf("the state %s is not whole: of %d files it has %d, which are not all the same", lines[0], len(want), len(got))
	}
	return lines[0], err
}

// publish runs a container that prepares a state and marks it, up to its end, which the caller calls.
func (w *world) publish(state string) container {
	w.Helper()
	c := w.start(marked...)
	if err := errors.Join(c.prepare(state), os.WriteFile(filepath.Join(c.dir, mark), nil, 0o644)); err != nil {
		w.Fatal(err)
	}
	return c
}

// find checks which state the next container finds, and returns it.
func (w *world) find(what string, want ...string) string {
	w.Helper()
	c := w.start(never...)
	defer c.end()
	got, err := c.state()
	if err != nil || !slices.Contains(want, got) {
		w.Errorf("%s: got the state %q, %v, want one of %q", what, got, err, want)
	}
	return got
}

// TestPreparedMeanwhile: containers that begin while others publish find the state before or the one after, whole,
// whatever they do to it.
func TestPreparedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := ""
	for round := range 3 * *rounds {
		state := fmt.Sprint(round)
		publisher := w.publish(state)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				for range 3 {
					c, err := w.mount(never...)
					if err != nil {
						t.Error(err)
						return
					}
					if got, err := c.state(); err != nil || got != before && got != state {
						t.Errorf("round %s: got the state %q, %v, want %q or %q", state, got, err, before, state)
					}
					err = errors.Join(c.prepare("never"), os.WriteFile(filepath.Join(c.dir, mark), nil, 0o644), c.unmount())
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		publisher.end()
		all.Wait()
		w.published()
		w.find("after round "+state, state)
		if t.Failed() {
			return
		}
		before = state
	}
}

// TestPreparedPluginKilled: the plugin is killed at a random moment of a publication. The next containers find the state
// before or the one after, whole, and it stays that one.
func TestPreparedPluginKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	w := newWorld(t)
	t.Logf("-rounds %d -seed %d", *rounds, *seed)
	random := rand.New(rand.NewPCG(*seed, 3))
	c := w.publish("0")
	began := time.Now()
	c.end()
	w.published()
	took, before := time.Since(began), "0"
	for kill := 1; kill <= 3**rounds; kill++ {
		state := fmt.Sprint(kill)
		c := w.publish(state)
		after := time.Duration(random.Int64N(int64(took)))
		killed := make(chan error)
		time.AfterFunc(after, func() { killed <- w.d.Kill() })
		err := c.d.Unmount(t.Context(), c.volume, "1") // which may fail
		t.Logf("the plugin is killed after %v of %v, before the end of container %s: %v", after, took, state, err)
		if err := <-killed; err != nil {
			t.Fatal(err)
		}
		d, err := daemon.Start(t, w.d.Config)
		if err != nil {
			t.Fatal(err)
		}
		w.d = d
		w.find("after the start", before, state)
		c.end() // as the engine asks again
		w.published()
		before = w.find("later", before, state)
		t.Logf("then the state is %s", before)
		if t.Failed() {
			return
		}
	}
	w.publish("last").end()
	w.published()
	w.find("at the end", "last")
}

// TestPreparedFullDisk: a setup that fills the disk fails, so it makes no mark and leaves nothing to others. The next one
// has its room again.
func TestPreparedFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	disk := testdisk.Small(t, func(dir string) error { return testdisk.Ext4(dir, 256<<20) })
	w := newWorldOn(t, filepath.Join(disk, "data"))
	w.publish("1").end()
	w.published()
	c := w.start(marked...)
	if _, out, err := c.run(false, "rm -r nm/d1; cat /dev/zero >nm/d2/zeros\ntouch "+mark); err == nil || !strings.Contains(out, "No space left") {
		t.Errorf("a setup that fills the disk: %v\n%s", err, out)
	}
	c.end()
	w.published()
	w.find("after a setup that filled the disk", "1")
	w.publish("2").end()
	w.published()
	w.find("after the next", "2")
}
