package soak

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

var subjects = flag.Int("subjects", 200, "how many subjects TestSubjects has")

// An idle subject with one volume, of a repository of one file, may take that much. sizing.md has
// what it takes.
const (
	subjectDisk   = 312 << 10 // bytes
	subjectInodes = 78
	subjectMemory = 12 << 10 // bytes
	// spareMemory is what the plugin may take besides, because the Go runtime keeps some memory.
	spareMemory = 16 << 20
)

// listWait is how long an engine waits for a list at most.
const listWait = 30 * time.Second

// made is how many subjects get their clones from the plugin. Those of the others are copies of the
// first one's, because a clone takes a dozen processes.
const made = 20

// crowd is a plugin with many subjects, each with one volume that was mounted once.
type crowd struct {
	*testing.T
	*daemon.Daemon
	server *gitserver.Server
	disk   string
}

// TestSubjects checks what each of many subjects takes of the disk and, after a restart, of the
// memory, and that the plugin then still starts, lists and mounts.
func TestSubjects(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	c := newCrowd(t)
	c.start()
	empty, emptySpace := c.memory(), c.space()
	for n := range made {
		c.mount(n, true)
	}
	c.settle()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c.copy(*subjects)
	copied := time.Since(began)
	space := c.space()
	bytes, inodes := (space.bytes-emptySpace.bytes)/int64(*subjects), float64(space.inodes-emptySpace.inodes)/float64(*subjects)

	began = time.Now()
	c.start()
	answered := time.Since(began)
	began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), listWait)
	defer cancel()
	list, err := c.List(ctx)
	listed := time.Since(began)
	if err != nil || len(list) != *subjects {
		t.Errorf("a list of %d volumes, want %d: %v", len(list), *subjects, err)
	}
	if clones, err := c.Admin.Clones(c.Context(), api.Filter{}); err != nil || len(clones) != *subjects {
		t.Errorf("a list of %d clones, want %d: %v", len(clones), *subjects, err)
	}
	c.awaitSweep()
	swept := time.Since(began)
	clones := c.server.Stats("r").Clones
	for n := range 2 * made { // half of them are copies
		c.mount(*subjects-1-n, false)
	}
	if got := c.server.Stats("r").Clones; got != clones {
		t.Errorf("%d clones were made again", got-clones)
	}
	var memory int64
	if err := wait.Until(t, func() error { // it returns what it does not need after a while
		memory = c.memory()
		if most := empty + spareMemory + int64(*subjects)*subjectMemory; memory > most {
			return fmt.Errorf("the plugin takes %d KiB, want at most %d: it took %d without subjects", memory>>10, most>>10, empty>>10)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	fmt.Printf("%d subjects, copied in %v: %d KiB and %.1f inodes each; after a restart an answer after %v, %v for the list, swept after %v; %d KiB of memory, %d without subjects: %.1f KiB each\n",
		*subjects, copied.Round(time.Second), bytes>>10, inodes, answered.Round(time.Millisecond), listed.Round(time.Millisecond), swept.Round(time.Millisecond),
		memory>>10, empty>>10, float64(memory-empty)/1024/float64(*subjects))
	if bytes > subjectDisk || inodes > subjectInodes {
		t.Errorf("each takes %d bytes and %.1f inodes, want at most %d and %d", bytes, inodes, subjectDisk, subjectInodes)
	}
	c.settle()
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
}

// newCrowd makes the server, and a disk with room for all subjects.
func newCrowd(t *testing.T) *crowd {
	t.Helper()
	dir := filepath.Join(scratch, "crowd")
	c := &crowd{T: t, disk: filepath.Join(dir, "disk")}
	repositories := filepath.Join(dir, "repos")
	inodes := fmt.Sprint(100_000 + 2*subjectInodes**subjects)
	if err := errors.Join(os.MkdirAll(repositories, 0o755), testdisk.Ext4(c.disk, 1<<30+2*subjectDisk*int64(*subjects), "-N", inodes)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.Daemon != nil {
			if t.Failed() {
				log := c.Config.Log()
				t.Logf("the end of the plugin's log:\n%s", log[max(0, len(log)-5000):])
			}
			_ = c.Kill() // it may have ended
		}
		if err := testdisk.Eject(t, c.disk); err != nil {
			t.Error(err)
		}
	})
	var err error
	if c.server, err = gitserver.Start(repositories); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.server.Close() })
	if _, err := testgit.Run(testgit.Command("/", "init", "--quiet", "--bare", "--initial-branch=main", c.server.Path("r"))); err != nil {
		t.Fatal(err)
	}
	if _, err := gitserver.Commit(c.server.Path("r"), "main", gitserver.Change{Path: "README", Content: "hello\n"}); err != nil {
		t.Fatal(err)
	}
	return c
}

// start starts the plugin.
func (c *crowd) start() {
	c.Helper()
	dir := filepath.Dir(c.disk)
	d, err := daemon.Start(c, daemon.Config{
		Program: program, Dir: dir, Data: filepath.Join(c.disk, "data"), Env: []string{"MAX_SIZE=0", "LOG_LEVEL=debug"},
	})
	if err != nil {
		c.Fatal(err)
	}
	c.Daemon = d
}

// awaitSweep waits until the sweep of the second start is done.
func (c *crowd) awaitSweep() {
	c.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for strings.Count(c.Config.Log(), "sweep: done") < 2 {
		select {
		case <-tick.C:
		case <-c.Ended():
			c.Fatal("the plugin has ended")
		}
	}
}

// settle waits until the plugin's background work is done.
func (c *crowd) settle() {
	c.Helper()
	if err := errors.Join(c.AwaitEmptyTrash(), wait.Until(c, func() error { return invariant.Structure(c.DataDir()) })); err != nil {
		c.Fatal(err)
	}
}

func nameOf(n int) string    { return fmt.Sprintf("volume-%05d", n) }
func subjectOf(n int) string { return fmt.Sprintf("subject-%05d", n) }

// mount mounts the volume of a subject, which is made first if it is new, and unmounts it.
func (c *crowd) mount(n int, isNew bool) {
	c.Helper()
	if isNew {
		if err := c.Create(c.Context(), nameOf(n), map[string]string{"repo": c.server.URL("r"), "subject": subjectOf(n)}); err != nil {
			c.Fatal(err)
		}
	}
	dir, err := c.Mount(c.Context(), nameOf(n), "m")
	if err != nil {
		c.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "README")); err != nil || string(got) != "hello\n" {
		c.Errorf("README of %s: %q, %v", nameOf(n), got, err)
	}
	if _, err := testgit.Run(testgit.Command(dir, "fsck", "--strict")); err != nil {
		c.Error(err)
	}
	if err := c.Unmount(c.Context(), nameOf(n), "m"); err != nil {
		c.Fatal(err)
	}
}

// copy gives the first subject's clone and volume to all subjects that have none, so that there are
// so many. The plugin does not run.
func (c *crowd) copy(subjects int) {
	c.Helper()
	data := c.DataDir()
	db, state, err := meta.Open(filepath.Join(data, "meta.db"))
	if err != nil {
		c.Fatal(err)
	}
	defer db.Close()
	of, key := state.Volumes[nameOf(0)], ""
	for k, rec := range state.Clones {
		if rec.Subject == subjectOf(0) {
			key = k
		}
	}
	files, err := readTemplate(filepath.Join(data, "clones", key))
	if err != nil {
		c.Fatal(err)
	}
	_, hash, _ := strings.Cut(key, "/")
	const batch = 1000 // of a transaction
	for from := made; from < subjects; from += batch {
		more := meta.State{
			Volumes: make(map[string]meta.Volume), Clones: make(map[string]meta.Clone), Trees: make(map[string]meta.Layer), GitLayers: make(map[string]meta.Layer),
		}
		for n := from; n < min(from+batch, subjects); n++ {
			rec := state.Clones[key]
			rec.Key, rec.Subject = volume.Subject(subjectOf(n)).Dir()+"/"+hash, subjectOf(n)
			more.Clones[rec.Key] = rec
			for id, l := range state.Trees {
				if l.Clone == key {
					l.Clone = rec.Key
					more.Trees[rec.Key+id] = l
				}
			}
			for id, l := range state.GitLayers {
				if l.Clone == key {
					l.Clone = rec.Key
					more.GitLayers[rec.Key+id] = l
				}
			}
			v := of
			v.Name, v.ID, v.Options = nameOf(n), fmt.Sprintf("%016x", n), map[string]string{}
			for name, value := range of.Options {
				v.Options[name] = value
			}
			v.Options["subject"] = subjectOf(n)
			more.Volumes[v.Name] = v
			if err := errors.Join(c.copyClone(files, rec), writeManifest(data, v)); err != nil {
				c.Fatal(err)
			}
		}
		if err := db.Update(func(tx *meta.Tx) error { return tx.Put(more) }); err != nil {
			c.Fatal(err)
		}
	}
}

// copyClone makes the directory of a clone.
func (c *crowd) copyClone(files template, rec meta.Clone) error {
	dir := filepath.Join(c.DataDir(), "clones", rec.Key)
	manifest := filepath.Join(dir, "manifest.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(dir), 0o755), files.write(dir)); err != nil {
		return err
	}
	text, err := os.ReadFile(manifest)
	if err != nil {
		return err
	}
	return os.WriteFile(manifest, bytes.ReplaceAll(text, []byte(subjectOf(0)), []byte(rec.Subject)), 0o644)
}

// writeManifest writes a volume's manifest as the plugin does, without syncing it.
func writeManifest(data string, v meta.Volume) error {
	text, err := json.MarshalIndent(v, "", "  ")
	sum := sha256.Sum256([]byte(v.Name))
	return errors.Join(err, os.WriteFile(filepath.Join(data, "volumes", hex.EncodeToString(sum[:16])+".json"), append(text, '\n'), 0o600))
}

// memory returns the resident set size of the plugin, in bytes.
func (c *crowd) memory() int64 {
	c.Helper()
	kib, err := invariant.Status(c.Pid(), "VmRSS")
	if err != nil {
		c.Fatal(err)
	}
	return kib << 10
}

type used struct{ bytes, inodes int64 }

// space returns what is used of the disk, which has nothing but the data.
func (c *crowd) space() used {
	c.Helper()
	var s unix.Statfs_t
	err := unix.Statfs(c.disk, &s)
	unix.Sync() // blocks of new files count when they are allocated
	if err = errors.Join(err, unix.Statfs(c.disk, &s)); err != nil {
		c.Fatal(err)
	}
	return used{int64(s.Blocks-s.Bfree) * s.Bsize, int64(s.Files - s.Ffree)}
}
