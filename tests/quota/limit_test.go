//go:build quota

package quota

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/api"
)

// TestLimit: whatever a container does, its writes end at the limit of its workspace, and removing makes room. Another
// subject notices nothing, and nothing is evicted.
func TestLimit(t *testing.T) {
	w := newWorld(t)
	w.addLarge()
	w.create("idle", "small", "subject=other") // could be evicted
	w.mount("idle", "1")
	w.end("idle", "1")
	w.create("other", "small", "subject=other")
	other := w.mount("other", "1")
	for name, fill := range map[string]string{
		"write":     "dd if=/dev/zero of=f bs=64k count=2000",
		"small":     "text=$(head -c 60000 /dev/zero | tr '\\0' x); while echo $text >f$i; do i=$((i+1)); done; exit 1",
		"truncate":  "truncate -s 524288000 f && dd if=/dev/zero of=f bs=64k count=2000 conv=notrunc",
		"fallocate": "fallocate -l 30m f && fallocate -l 30m g",
		"append":    "dd if=/dev/zero of=f bs=64k count=200 && dd if=/dev/zero of=large bs=64k count=2000 oflag=append conv=notrunc",
		"copy up":   "dd if=/dev/zero of=f bs=64k count=700 && echo text >>large",
		"links":     "dd if=/dev/zero of=f bs=64k count=800; ln f g && ln f h && dd if=/dev/zero of=h bs=64k count=2000 oflag=append conv=notrunc",
		"user":      "dd if=/dev/zero of=d/f bs=64k count=2000",
		"outside":   "mkdir d && cd d && dd if=/dev/zero of=f bs=64k count=400 && mv f .. && cp ../f f && cp f g",
		"cache":     "dd if=/dev/zero of=.git/hdcache/f bs=64k count=2000",
	} {
		t.Run(name, func(t *testing.T) {
			w := w.of(t)
			volume := strings.ReplaceAll(name, " ", "-")
			w.create(volume, "large", "size=50m")
			c := w.mount(volume, "1")
			c.t = t
			if name == "user" {
				c.must("mkdir d; chmod 777 d")
				c.uid = 1000
			}
			if _, used := w.space(c); used > mib/2 {
				t.Errorf("a new workspace has %d bytes", used)
			}
			w.ends(c, fill)
			other.must("dd if=/dev/zero of=f bs=64k count=160; rm f; echo text >g")
			if name != "copy up" && name != "fallocate" && name != "outside" { // which fail as a whole
				w.full(c, 50*mib)
			}
			if name == "append" { // the copy of the layer's file counts
				return
			}
			c.uid = 0
			c.must("rm -rf f* g h d .git/hdcache/f; dd if=/dev/zero of=again bs=64k count=600; rm again")
			w.end(volume, "1")
		})
	}
	w.end("other", "1")
	w.unnoticed()
	w.Unmount(context.Background(), "append", "1")
	w.clear()
}

// of is w for a subtest.
func (w *world) of(t *testing.T) *world {
	o := *w
	o.t = t
	return &o
}

// TestInodes: a limit of inodes holds too.
func TestInodes(t *testing.T) {
	w := newWorld(t)
	w.create("v", "small", "inodes=200")
	c := w.mount("v", "1")
	w.ends(c, "while : >f$i; do i=$((i+1)); done; exit 1")
	files, err := filepath.Glob(filepath.Join(c.dir, "f*"))
	w.must(err)
	if len(files) < 180 || len(files) > 200 {
		t.Errorf("%d files could be made, want nearly 200", len(files))
	}
	w.ends(c, "mkdir d")
	w.ends(c, "ln -s x y")
	c.must("ln f f99x; rm f*; mkdir d; ln -s x y")
	w.end("v", "1")
	w.clear()
}

// TestOthersAtTheSameTime: while a workspace is full, all that others do succeeds every time: Mounts, also of new clones, and writes.
func TestOthersAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	w.create("full", "small", "size=5m", "subject=a")
	c := w.mount("full", "1")
	done := make(chan error)
	stop := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if out, err := c.run("dd if=/dev/zero of=f bs=64k count=200"); err == nil {
				done <- fmt.Errorf("it could write: %s", out)
				return
			}
		}
	}()
	for n := range 3 {
		name := fmt.Sprint("v", n)
		w.create(name, "small", fmt.Sprintf("subject=b%d", n), "size=10m")
		o := w.mount(name, "1")
		o.must("dd if=/dev/zero of=f bs=64k count=100")
		testgitCommit(o)
		w.end(name, "1")
	}
	close(stop)
	for err := range done {
		t.Error(err)
	}
	w.unnoticed()
	w.end("full", "1")
	w.clear()
}

// testgitCommit commits in a workspace.
func testgitCommit(c container) {
	c.t.Helper()
	c.must("git -c user.name=t -c user.email=t@t -c safe.directory='*' add f && git -c safe.directory='*' -c user.name=t -c user.email=t@t commit -qm f")
}

// TestModes: a shared workspace has one limit, and a kept one has it again after each Mount, a restart and a crash of the
// plugin. A full one is mounted again, with its description.
func TestModes(t *testing.T) {
	w := newWorld(t)
	w.create("shared", "small", "size=20m", "mode=shared")
	one, two := w.mount("shared", "1"), w.mount("shared", "2")
	one.must("dd if=/dev/zero of=f bs=64k count=200")
	w.ends(two, "dd if=/dev/zero of=g bs=64k count=200")
	w.full(one, 20*mib)
	w.unmount("shared", "1")
	w.end("shared", "2")

	w.create("kept", "small", "size=20m", "inodes=200", "mode=keep")
	for _, again := range []func(){
		func() {},
		func() { w.restart(false) },
		func() { w.restart(true) },
		func() { // as after a restart of the machine
			w.must(unix.Unmount(w.mount("kept", "again").dir, unix.MNT_DETACH))
			w.unmount("kept", "again")
			w.restart(true)
		},
	} {
		again()
		c := w.mount("kept", "1")
		if data, err := os.ReadFile(filepath.Join(c.dir, ".git/helmdeck.json")); err != nil || !strings.Contains(string(data), `"kept"`) {
			t.Errorf("%q, %v", data, err)
		}
		w.ends(c, "dd if=/dev/zero of=f bs=64k count=2000")
		w.full(c, 20*mib)
		w.ends(c, "while : >f$i; do i=$((i+1)); done; exit 1")
		w.unmount("kept", "1")
	}
	c := w.mount("kept", "1")
	c.must("rm f*; dd if=/dev/zero of=f bs=64k count=200")
	w.end("kept", "1")
	w.clear()
}

// TestCrash: a container's limit holds while the plugin is gone, and when it is back; a Mount that is cut off leaves nothing.
func TestCrash(t *testing.T) {
	w := newWorld(t)
	w.create("v", "small", "size=20m")
	c := w.mount("v", "1")
	w.must(w.Kill())
	w.ends(c, "dd if=/dev/zero of=f bs=64k count=2000")
	w.start(w.Config)
	w.ends(c, "dd if=/dev/zero of=f bs=64k count=2000")
	w.full(c, 20*mib)
	w.unmount("v", "1")

	id := ids.First + 1000 // as of a Mount that was cut off
	w.must(w.quotas.Limit(id, size(mib)))
	for range 5 {
		go w.Mount(context.Background(), "v", "2") // the answer does not come
		w.restart(true)
	}
	w.Unmount(context.Background(), "v", "2")
	w.restart(true)
	w.must(w.Remove(context.Background(), "v"))
	w.clear()
}

// TestCheckpoint: a checkpoint keeps its project; a volume that begins with it has a limit of its own, or none.
func TestCheckpoint(t *testing.T) {
	w := newWorld(t)
	w.create("v", "small", "size=20m")
	c := w.mount("v", "1")
	w.ends(c, "dd if=/dev/zero of=f bs=64k count=2000")
	w.end("v", "1")
	id := w.checkpoint()
	w.create("more", "small", "from="+id, "size=10m")
	for _, lease := range []string{"1", "2"} {
		c = w.mount("more", lease)
		w.ends(c, "dd if=/dev/zero of=g bs=64k count=2000")
		w.full(c, 10*mib)
		c.must("rm f && [ ! -e f ]") // a whiteout needs no room
	}
	w.unmount("more", "1")
	w.end("more", "2")
	w.create("again", "small", "from="+id, "size=", "inodes=")
	c = w.mount("again", "1")
	c.must("dd if=/dev/zero of=g bs=64k count=400")
	w.end("again", "1")
	w.clear()
}

// TestDraft: a checkpoint of a running workspace counts nothing for its limit, and holds none of it back; what begins
// with one has a limit of its own. A workspace that is full can be copied.
func TestDraft(t *testing.T) {
	w := newWorld(t)
	w.create("v", "small", "size=20m")
	c := w.mount("v", "1")
	w.ends(c, "dd if=/dev/zero of=f bs=64k count=2000")
	w.full(c, 20*mib)
	list, err := w.Admin.Workspaces(t.Context(), api.Filter{Volume: "v"})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	var ids []string
	for range 3 {
		d, err := w.Checkpoint(t.Context(), list[0].ID, api.Note{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	w.full(c, 20*mib)
	c.must("rm f; dd if=/dev/zero of=f bs=64k count=300")
	w.ends(c, "dd if=/dev/zero of=g bs=64k count=2000")
	w.full(c, 20*mib)
	w.create("fork", "small", "from="+ids[0], "size=10m")
	f := w.mount("fork", "1")
	w.ends(f, "dd if=/dev/zero of=g bs=64k count=2000")
	w.full(f, 10*mib)
	w.end("fork", "1")
	w.end("v", "1")
	w.clear()
}

// TestCopied: the upper of a workspace that has lost its project, as a copy of the data directory has, gets it again, and
// a container can make directories in the place of those that it deleted.
func TestCopied(t *testing.T) {
	w := newWorld(t)
	w.create("v", "small", "size=20m", "mode=keep")
	c := w.mount("v", "1")
	c.must(`dd if=/dev/zero of=f bs=64k count=160; for d in */; do echo "$d" >name; rm -r "$d"; break; done; [ -s name ]`)
	w.unmount("v", "1")
	list, err := w.Admin.Workspaces(t.Context(), api.Filter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d workspaces: %v", len(list), err)
	}
	w.must(unix.Unmount(c.dir, unix.MNT_DETACH))
	w.restart(true)
	upper, err := filepath.Glob(filepath.Join(w.DataDir(), "clones/*/*/workspaces", list[0].ID, "upper"))
	if err != nil || len(upper) != 1 {
		t.Fatalf("uppers %q: %v", upper, err)
	}
	w.must(w.quotas.Move(t.Context(), upper[0], 0))
	c = w.mount("v", "1")
	c.must(`mkdir "$(cat name)" && rmdir "$(cat name)" && mkdir d && mv d "$(cat name)"`)
	if _, used := w.space(c); used < 10*mib || used > 11*mib {
		t.Errorf("what it held counts as %d bytes", used)
	}
	w.ends(c, "dd if=/dev/zero of=g bs=64k count=2000")
	w.full(c, 20*mib)
	w.end("v", "1")
	w.clear()
}
