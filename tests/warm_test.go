package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/wait"
)

// awaitEnded waits until a subject has at most left workspaces. From then on the next container
// finds the warm layers of the ended ones. A workspace with changes only at warm paths does not
// become a checkpoint.
func (e *engine) awaitEnded(t *testing.T, subject string, left int) {
	t.Helper()
	wait.For(t, "the workspaces to end", func() error {
		dirs, err := filepath.Glob(e.Data("clones", subject, "*", "workspaces", "*"))
		if err == nil && len(dirs) > left {
			err = fmt.Errorf("%d are left, such as %s", len(dirs), dirs[0])
		}
		return err
	})
}

// awaitPublished waits until no workspace of a subject has ended that may still publish: each is gone, or a checkpoint.
func (e *engine) awaitPublished(t *testing.T, subject string) {
	t.Helper()
	wait.For(t, "the workspaces to publish their caches", func() error {
		list, err := e.admin(t).Workspaces(t.Context(), api.Filter{Subject: subject})
		for _, w := range list {
			if w.Phase == "ended" {
				err = fmt.Errorf("%s has not published yet", w.ID)
			}
		}
		return err
	})
}

// packages lists the files below node_modules and their content.
const packages = "cd node_modules 2>/dev/null && grep -r . . | sort || echo none"

// Each container finds the node_modules that the last one left, after each of several changes that
// package managers make.
func TestWarm(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	// docker's --mount takes a value with a comma in quotes.
	m := mount("", "repo="+r.url, "subject="+subject(t)) + `,"volume-opt=warm=node_modules,web/dist"`
	with := func(option string) string { return m + ",volume-opt=" + option }
	run := func(m, script, want string) {
		t.Helper()
		if got := e.sh(t, m, script); got != want {
			t.Errorf("%s: got %q, want %q", script, got, want)
		}
		e.awaitEnded(t, subject(t), 0)
	}
	run(m, `mkdir -p node_modules/a/lib node_modules/b node_modules/c web/dist
		echo a1 >node_modules/a/index; echo a1 >node_modules/a/lib/x; echo b1 >node_modules/b/index; echo c1 >node_modules/c/index
		echo 1 >web/dist/out; ln -s ../a/index node_modules/b/link`, "")
	run(m, packages+"; cd ..; git status --porcelain web", "./a/index:a1\n./a/lib/x:a1\n./b/index:b1\n./b/link:a1\n./c/index:c1\n?? web/")
	// Files are changed, replaced, removed and added. npm moves a directory away before it replaces
	// it.
	run(m, `echo a2 >node_modules/a/index
		mv node_modules/b node_modules/.b-retired; mkdir node_modules/b; echo b2 >node_modules/b/main; rm -rf node_modules/.b-retired
		rm -rf node_modules/c; mkdir node_modules/d; echo d2 >node_modules/d/index; rm -rf web/dist`, "")
	second := "./a/index:a2\n./a/lib/x:a1\n./b/main:b2\n./d/index:d2"
	run(m, packages+"; ls ../web 2>/dev/null || true", second)

	// An untrusted job sees the files, and leaves nothing behind.
	run(with("publish=never"), `echo evil >node_modules/a/index; mkdir -p web/dist; echo evil >web/dist/out
		mkdir .git/hdcache/mine; echo evil >.git/hdcache/mine/x`, "")
	run(m, packages+"; ls ../web 2>/dev/null || true; ls ../.git/hdcache/mine 2>/dev/null || true", second)
	// Other keys and uids do not share warm directories. A new branch begins with those of the
	// default branch.
	run(with("warm_key=image-2"), packages, "none")
	run(with("uid=1000"), packages, "none")
	run(with("ref=feature/x"), packages+"; echo x >topic", second)
	run(with("ref="+r.head), packages, second)
	run(m, packages, second)

	// A clean install replaces everything.
	run(m, "rm -rf node_modules; mkdir node_modules; echo e3 >node_modules/e", "")
	run(m, packages, "./e:e3")
	run(with("ref=feature/x"), packages, second+"\n./topic:x")
	run(m, "git clean -ffdxq", "")
	run(m, packages, "none")
}

// Of two concurrent containers only the first one that ends publishes its warm directories.
func TestWarmTogether(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	volume := subject(t)
	e.create(t, volume, "repo="+r.url, "subject="+subject(t), "warm=node_modules", "uid=1000", "gid=1000")
	first, second := e.sleeper(t, mount(volume), "--user", "1000:1000"), e.sleeper(t, mount(volume), "--user", "1000:1000")
	first.sh(t, "mkdir node_modules; echo 1 >node_modules/first")
	second.sh(t, "mkdir node_modules; echo 2 >node_modules/second")
	second.remove(t)
	e.awaitEnded(t, subject(t), 1)
	first.remove(t)
	e.awaitEnded(t, subject(t), 0)
	third := e.sleeper(t, mount(volume), "--user", "1000:1000")
	if got := third.sh(t, packages+"; touch node_modules; git status --porcelain"); got != "./second:2" {
		t.Errorf("got %q, want the files of the container that ended first", got)
	}
	status := fmt.Sprint(e.status(t, volume)["warm"])
	if !strings.Contains(status, "path:node_modules") || !strings.Contains(status, "layers:1") {
		t.Errorf("status %s", status)
	}
	third.remove(t)
	e.docker(t, "volume", "rm", volume)
}

// Even with CAP_SYS_ADMIN a container cannot pass on anything at a warm path but plain files and
// directories of its own.
func TestWarmHostile(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "subject="+subject(t), "warm=node_modules")
	e.sh(t, m, "mkdir node_modules; echo good >node_modules/x")
	e.awaitEnded(t, subject(t), 0)
	for name, script := range map[string]string{
		"a link":      "rm -rf node_modules; ln -s /etc node_modules",
		"a device":    "echo evil >node_modules/x; mknod node_modules/null c 1 3",
		"a hard link": "echo evil >node_modules/x; ln node_modules/x ../w/twin",
		"a whiteout":  "echo evil >node_modules/x; mknod node_modules/y c 0 0 2>/dev/null; mknod node_modules/z b 7 0",
		"an attribute": `echo evil >node_modules/x; mkdir node_modules/d
			setfattr -n trusted.overlay.redirect -v /.git node_modules/d 2>/dev/null; mknod node_modules/null c 1 3`,
	} {
		e.sh(t, m, "set +e; "+script+"; true", "--cap-add", "SYS_ADMIN")
		e.awaitReclaimed(t, subject(t))
		if got := e.sh(t, m, packages); got != "./x:good" {
			t.Errorf("after %s: got %q", name, got)
		}
		e.awaitEnded(t, subject(t), 0)
	}
}

// The plugin flattens the layers of many generations, with its capabilities as a managed plugin.
// The files stay the same.
func TestWarmGenerations(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "subject="+subject(t), "warm=node_modules", "uid=1000", "gid=1001")
	user := []string{"--user", "1000:1001"}
	e.sh(t, m, `mkdir -p node_modules/closed; echo secret >node_modules/closed/x; ln -s closed/x node_modules/link; chmod 4700 node_modules/closed/x
		echo linked >node_modules/one; ln node_modules/one node_modules/two; mkfifo node_modules/fifo
		TZ=UTC touch -t 202001020304.05 node_modules/one node_modules/closed; chmod 500 node_modules/closed`, user...)
	e.awaitEnded(t, subject(t), 0)
	const generations = 12
	for i := range generations {
		e.sh(t, m, fmt.Sprintf("rm -f node_modules/n*; echo %d >node_modules/n%d", i, i), user...)
		e.awaitEnded(t, subject(t), 0)
	}
	wait.For(t, "the layers to be flattened", func() error {
		layers, err := filepath.Glob(e.Data("clones", subject(t), "*", "warm", "*"))
		if err == nil && len(layers) >= 8 {
			err = fmt.Errorf("%d layers", len(layers))
		}
		return err
	})
	got := e.sh(t, m, `cd node_modules; stat -c '%n %a %u:%g %h %Y' closed closed/x one; ls; cat closed/x n* two`, user...)
	want := fmt.Sprintf("closed 500 1000:1001 2 1577934245\nclosed/x 4700 1000:1001 1 %%\none 644 1000:1001 2 1577934245\n"+
		"closed\nlink\nn%d\none\ntwo\nsecret\n%d\nlinked", generations-1, generations-1)
	before, after, _ := strings.Cut(want, "%")
	if !strings.HasPrefix(got, before) || !strings.HasSuffix(got, after) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
