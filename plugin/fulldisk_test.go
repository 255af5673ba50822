package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// smallDisk returns a directory base to start the plugin on. Its subdirectory data is the mount point
// of a small filesystem.
func smallDisk(t *testing.T, fs func(string) error) (base, data string) {
	t.Helper()
	base = scratch(t)
	data = filepath.Join(base, "data")
	if err := fs(data); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testdisk.Eject(t, data); err != nil {
			t.Error(err)
		}
	})
	return base, data
}

// onSmallDisks runs a test on a small disk with each filesystem.
func onSmallDisks(t *testing.T, f func(t *testing.T, base, data string)) {
	for _, fs := range testdisk.Filesystems {
		t.Run(fs.Name, func(t *testing.T) {
			base, data := smallDisk(t, fs.Make)
			f(t, base, data)
		})
	}
}

// full matches every error about a full disk.
var full = regexp.MustCompile(`no space left|out of disk`)

// occupy fills the disk with one file, and returns its path.
func occupy(t *testing.T, data, name string) (path string) {
	t.Helper()
	path = filepath.Join(data, name)
	if err := testdisk.Fill(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// vacate deletes the files of occupy. A file may be missing if the disk had no room for it.
func vacate(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// fillUp writes until the disk is full, like a container that is out of control.
func fillUp(dir string) error {
	f, err := os.Create(filepath.Join(dir, "out-of-hand"))
	if err != nil {
		return err
	}
	defer f.Close()
	for chunk := 1 << 20; chunk > 0; {
		_, err := f.Write(make([]byte, chunk))
		switch {
		case errors.Is(err, unix.ENOSPC):
			chunk /= 2
		case err != nil:
			return err
		}
	}
	if err := f.Sync(); err != nil && !errors.Is(err, unix.ENOSPC) {
		return err
	}
	return nil
}

// TestFullDiskStarts checks that the plugin starts on a full disk, and that volumes can be inspected
// and removed there. Workspaces can be ended and deleted, and mounts work again when the disk has
// room.
func TestFullDiskStarts(t *testing.T) {
	t.Parallel()
	server := remote(t)
	onSmallDisks(t, func(t *testing.T, base, data string) {
		p := start(t, base, "CHECKPOINT_TTL=0")
		options := map[string]string{"repo": server.URL("sample")}
		for _, name := range []string{"v", "w", "gone"} {
			p.create(name, options)
		}
		dir := p.mount("v", "a")
		if err := os.WriteFile(filepath.Join(dir, "work"), []byte("precious"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := fillUp(dir); err != nil {
			t.Fatal(err)
		}
		filled := occupy(t, data, "fill")
		p.stop()
		// Another writer has taken the blocks of the reserve.
		if err := os.Truncate(filepath.Join(data, reserveFile), 0); err != nil {
			t.Fatal(err)
		}
		eaten := occupy(t, data, "eaten")
		p = start(t, base, "CHECKPOINT_TTL=0")
		for _, name := range []string{"v", "w", "gone"} {
			p.get(name)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "work")); err != nil || string(got) != "precious" {
			t.Errorf("a container's file on the full disk: %q, %v", got, err)
		}
		if err := p.Remove(t.Context(), "gone"); err != nil {
			t.Errorf("remove a volume on the full disk: %v", err)
		}
		before, err := disk.SpaceOf(data)
		if err != nil {
			t.Fatal(err)
		}
		p.unmount("v", "a")
		wait.For(t, "the space of the workspace", func() error {
			after, err := disk.SpaceOf(data)
			if err == nil && after.Free.Bytes-before.Free.Bytes < 100<<20 {
				err = fmt.Errorf("%d bytes are free after the workspace has ended, %d before", after.Free.Bytes, before.Free.Bytes)
			}
			return err
		})
		dir = p.mount("w", "b")
		if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
			t.Errorf("a workspace after the full disk is not clean: %s", got)
		}
		p.unmount("w", "b")
		vacate(t, filled, eaten)
		wait.For(t, "sound data", func() error { return invariant.Structure(data) })
	})
}

// TestFullDiskAtEveryStep leaves different amounts of room, so that the disk becomes full in a fetch, a
// checkout, a workspace, a commit of the database or the trash. Each error must say that the disk is
// full. Nothing partial may stay, and everything must work again when the disk has room.
func TestFullDiskAtEveryStep(t *testing.T) {
	t.Parallel()
	server := remote(t)
	onSmallDisks(t, func(t *testing.T, base, data string) {
		p := start(t, base, "CHECKPOINT_TTL=0")
		options := func(i int) map[string]string {
			return map[string]string{"repo": server.URL("sample"), "subject": fmt.Sprint("s", i)}
		}
		// An earlier workspace must not be affected.
		p.create("before", options(-1))
		before := p.mount("before", "a")
		first := occupy(t, data, "fill")
		info, err := os.Stat(first)
		if err != nil {
			t.Fatal(err)
		}
		size, failed, worked := info.Size(), 0, 0
		fills := []string{first}
		for i, room := range []int64{0, 4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20} {
			fills = append(fills, occupy(t, data, fmt.Sprint("fill-", i)))
			size -= room
			if err := os.Truncate(first, size); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprint("v", i)
			err := p.tryCreate(name, options(i))
			if err == nil {
				if err = p.tryMount(name, "a"); err == nil {
					worked++
					p.unmount(name, "a")
				}
			}
			if err != nil {
				failed++
				if !full.MatchString(err.Error()) {
					t.Errorf("with %d bytes left: %v; want an error that says that the disk is full", room, err)
				}
			}
			p.get("before")
		}
		if failed == 0 || worked == 0 {
			t.Errorf("%d mounts failed, %d worked; want some of each: adjust the free bytes of the steps", failed, worked)
		}
		if got := testgit.Git(t, before, "status", "--porcelain"); got != "" {
			t.Errorf("a workspace from before the full disk is not clean: %s", got)
		}
		p.unmount("before", "a")
		vacate(t, fills...)
		p.create("after", options(1000))
		if got := testgit.Git(t, p.mount("after", "a"), "status", "--porcelain"); got != "" {
			t.Errorf("a workspace from after the full disk is not clean: %s", got)
		}
		p.unmount("after", "a")
		p.stop()
		start(t, base, "CHECKPOINT_TTL=0")
		wait.For(t, "sound data", func() error { return invariant.Structure(data) })
		if err := invariant.Content(data); err != nil {
			t.Error(err)
		}
	})
}

// TestContainerFillsTheDisk has a container fill the disk while others mount. Each Mount must work or
// return an error that says why it failed. When the container ends, the disk has room again.
func TestContainerFillsTheDisk(t *testing.T) {
	t.Parallel()
	server := remote(t)
	onSmallDisks(t, func(t *testing.T, base, data string) {
		p := start(t, base, "CHECKPOINT_TTL=0")
		options := map[string]string{"repo": server.URL("sample")}
		p.create("hungry", options)
		p.create("other", options)
		p.create("late", options)
		dir := p.mount("hungry", "a")
		other := p.mount("other", "first") // makes the clone
		wrote := make(chan error, 1)
		go func() { wrote <- fillUp(dir) }()
		for i, writing := 0, true; writing; i++ {
			select {
			case err := <-wrote:
				if err != nil {
					t.Fatal(err)
				}
				writing = false
			default:
			}
			id := fmt.Sprint(i)
			switch err := p.tryMount("other", id); {
			case err == nil:
				p.unmount("other", id)
			case !full.MatchString(err.Error()):
				t.Errorf("mount %d: %v; want an error that says that the disk is full", i, err)
			}
		}
		if err := p.tryMount("late", "a"); err == nil {
			p.unmount("late", "a")
		} else if !full.MatchString(err.Error()) || !strings.Contains(err.Error(), " missing") || !strings.Contains(err.Error(), `"hungry"`) {
			t.Errorf("on the full disk: %v; want an error that says how much is missing and which volume has it", err)
		}
		if got := testgit.Git(t, other, "rev-parse", "HEAD"); len(got) != 40 {
			t.Errorf("rev-parse HEAD in another container: %q", got)
		}
		p.unmount("other", "first")
		p.unmount("hungry", "a")
		wait.For(t, "room", func() error { return p.tryMount("late", "b") })
		p.unmount("late", "b")
		wait.For(t, "sound data", func() error { return invariant.Structure(data) })
		if strings.Contains(p.log.String(), "panic") {
			t.Error("the log has a panic")
		}
	})
}

// TestFullDiskMakesRoom checks that a mount on a disk full of evictable data gets room.
func TestFullDiskMakesRoom(t *testing.T) {
	t.Parallel()
	server := remote(t)
	onSmallDisks(t, func(t *testing.T, base, data string) {
		p := start(t, base)
		options := map[string]string{"repo": server.URL("sample")}
		p.create("hungry", options)
		if err := fillUp(p.mount("hungry", "a")); err != nil {
			t.Fatal(err)
		}
		p.unmount("hungry", "a")
		options["subject"] = "another"
		// The workspace can't be evicted until the kernel reports it as free.
		wait.For(t, "room", func() error { return p.tryCreate("late", options) })
		wait.For(t, "room", func() error { return p.tryMount("late", "a") })
		p.waitFor("evicted")
		p.unmount("late", "a")
		wait.For(t, "sound data", func() error { return invariant.Structure(data) })
	})
}
