package cache

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/overlay"
)

// container runs a script in the cache of a workspace whose overlay has the published layers, and ends the workspace.
func (b *bench) container(script string) {
	b.Helper()
	ws := b.mkdir("ws")
	var lower []string
	for _, l := range append(b.layers, b.mkdir("base")) { // as layers have them
		top := b.mkdir("lower")
		b.ok(os.MkdirAll(filepath.Join(top, ".git"), 0o755), os.Rename(l, filepath.Join(top, Mount)))
		lower = append(lower, top)
	}
	upper, target := filepath.Join(ws, "upper"), filepath.Join(ws, "tree")
	b.ok(os.Mkdir(upper, 0o755), os.Mkdir(filepath.Join(ws, "work"), 0o755), os.Mkdir(target, 0o755))
	b.ok(overlay.Mount(overlay.Spec{Lower: lower, Upper: upper, Work: filepath.Join(ws, "work"), Target: target, Volatile: true, Metacopy: true}))
	sh := exec.Command("sh", "-ec", script)
	sh.Dir = filepath.Join(target, Mount)
	out, err := sh.CombinedOutput()
	b.ok(overlay.Unmount(target))
	if err != nil {
		b.Fatalf("%s: %v", out, err)
	}
	b.from = filepath.Join(upper, Mount)
	b.ok(os.MkdirAll(b.from, 0o755))
	for i := range b.layers {
		b.layers[i] = filepath.Join(lower[i], Mount)
	}
	view, err := overlay.View(overlay.Spec{Lower: append([]string{upper}, lower...), Metacopy: true})
	b.ok(err)
	b.Cleanup(func() { _ = view.Close() })
	b.shown = func(rel string) (*os.File, error) { return disk.Open(view, filepath.Join(Mount, rel), unix.O_RDONLY) }
}

const crate = "cargo/registry/src/i/a-1"

// TestOverlay has what containers do to a cache over published layers.
func TestOverlay(t *testing.T) {
	t.Parallel()
	setup := `
		mkdir -p ` + crate + ` npm/_cacache/content-v2 npm/_cacache/index-v5 uv/archive-v0/x/d tool
		echo 1 >` + crate + `/lib.rs; echo ok >` + crate + `/.cargo-ok
		echo one >npm/_cacache/content-v2/one; echo i >npm/_cacache/index-v5/i; echo x >uv/archive-v0/x/d/f; echo t >tool/t`
	for _, c := range []struct {
		name, script string
		want         []string
	}{
		{"chown, chmod", "chown -R 77:77 .; chmod -R a+x .", nil},
		{"times", "find . -type f -exec touch -d 2199-01-01 {} +", nil},
		{"opened, not changed", "find . -type f | while read f; do : >>$f; done", nil},
		{"all is deleted", "find . -mindepth 1 -delete", nil},
		{"deleted, and other things made", "rm -rf npm; mkdir -p npm/_cacache/content-v2/one; echo 2 >npm/_cacache/content-v2/one/x; echo 2 >npm/_cacache/content-v2/two",
			[]string{"npm/_cacache/content-v2/two", "2\n"}},
		{"a published unit was edited", "echo 2 >>" + crate + "/lib.rs; echo 2 >" + crate + "/new.rs", nil},
		{"a published unit is made again", "rm -r " + crate + "; mkdir " + crate + "; echo 3 >" + crate + "/lib.rs; echo ok >" + crate + "/.cargo-ok", nil},
		{"a directory was renamed", "mv uv/archive-v0/x uv/archive-v0/y; mv tool other", nil},
		{"a directory in a unit was renamed", "mkdir uv/archive-v0/y; mv uv/archive-v0/x/d uv/archive-v0/y/d; echo 1 >uv/archive-v0/y/f", nil},
		{"a unit of links to the store", "mkdir -p uv/archive-v0/y; ln uv/archive-v0/x/d/f uv/archive-v0/y/f", []string{"uv/archive-v0/y/f", "x\n"}},
		{"a store's file is linked into the work tree", "mkdir ../../venv; cp -al uv/archive-v0/x ../../venv", nil},
		{"a file was renamed", "mv npm/_cacache/content-v2/one npm/_cacache/content-v2/other", []string{"npm/_cacache/content-v2/other", "one\n"}},
		{"an index is written again", "touch -d 2199-01-01 npm/_cacache/index-v5/i tool/t; printf 'i\\n' >npm/_cacache/index-v5/i; echo u >tool/t; touch -d 2199-01-01 tool/t",
			[]string{"tool/t", "u\n"}},
		{"a deleted unit is half made", "rm -r " + crate + "; mkdir -p " + crate + " cargo/registry/src/i/b-1; echo half >cargo/registry/src/i/b-1/lib.rs", nil},
	} {
		for _, copy := range []bool{false, true} {
			b := newBench(t)
			b.Logf("%s, copy %v", c.name, copy)
			b.container(setup)
			if r := b.collect(now); r.Files != 6 {
				t.Fatalf("%+v", r)
			}
			b.container(c.script)
			b.copy = copy
			b.want(b.collect(now.Add(time.Hour)), c.want...)
		}
	}
}

// TestDroppedMeanwhile: a container adds files to a directory of another tool whose published files are dropped while it runs.
// Without these its own are a part, and are not published. What it made itself is.
func TestDroppedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, copy := range []bool{false, true} {
		for _, dropped := range []bool{false, true} {
			b := newBench(t)
			b.container("mkdir -p tool/pkg; echo 1 >tool/pkg/a; echo 1 >tool/index")
			b.collect(now)
			b.container("echo 2 >tool/pkg/b; mkdir -p made/d; echo 3 >made/d/x")
			want := []string{"made/d/x", "3\n"}
			if dropped {
				b.layers = nil
			} else {
				want = append(want, "tool/pkg/b", "2\n")
			}
			b.copy = copy
			b.want(b.collect(now.Add(time.Hour)), want...)
		}
	}
}

// TestLinksOfPublishedUnits checks that no file of a cache has several names after a move.
func TestLinksOfPublishedUnits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.container("mkdir -p uv/archive-v0/x npm/_logs; echo x >uv/archive-v0/x/f; echo l >npm/_logs/l")
	b.collect(now)
	b.container("mkdir ../../venv; cp -al uv/archive-v0/x ../../venv; mkdir -p npm/_logs; echo l >npm/_logs/l; cp -al npm/_logs ../../venv")
	b.want(b.collect(now.Add(time.Hour)))
	left, err := exec.Command("find", b.from, "-type", "f", "-links", "+1").Output()
	b.ok(err)
	if len(left) > 0 {
		t.Errorf("left %s", left)
	}
}

// TestConcurrent publishes while programs change all. It returns no error, and what it publishes is clean.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.copy = true
	outside := b.mkdir("outside")
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				name := func() string {
					return b.at(fmt.Sprintf("%s/%d", []string{"tool", "tool/1", "npm/_cacache/content-v2", "nuget/a", "nuget/a/1"}[rand.IntN(5)], rand.IntN(3)))
				}
				at := name()
				_ = os.MkdirAll(filepath.Dir(at), 0o755)
				switch rand.IntN(7) {
				case 0:
					_ = os.WriteFile(at, []byte(strings.Repeat("x", rand.IntN(1<<16))), 0o644)
				case 1:
					_ = os.Symlink(outside, at) // other names are made and removed through it
				case 2:
					_ = os.RemoveAll(at)
				case 3:
					_ = os.MkdirAll(at, 0o755)
				case 4:
					_ = os.Rename(at, name())
				case 5:
					_ = os.WriteFile(at+"/.nupkg.metadata", []byte("{}"), 0o644)
				case 6:
					_ = unix.Mkfifo(at+"-fifo", 0o644) // a write to it would wait for ever
				}
			}
		})
	}
	for i := range 30 {
		b.collect(now.Add(time.Duration(i) * time.Minute))
		clean(t, b.layers[0])
		if len(b.layers) > 5 {
			b.layers = b.layers[:0]
		}
	}
	close(done)
	wg.Wait()
}
