package tests

import (
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// The next container finds a file that the first one puts into the cache, whatever the first one does to its tree. While
// both run, neither sees what the other writes or removes.
func TestCache(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))

	const read = "cat .git/hdcache/mine/* 2>/dev/null || echo none"
	first, second := e.sleeper(t, mount(subject(t))), e.sleeper(t, mount(subject(t)))
	first.sh(t, "mkdir .git/hdcache/mine; echo one >.git/hdcache/mine/one; git clean -ffdxq")
	if got := first.sh(t, "cat .git/hdcache/mine/one"); got != "one" {
		t.Errorf("after git clean: got %q, want the marker", got)
	}
	if got := second.sh(t, read); got != "none" {
		t.Errorf("the second container sees %q while the first one runs", got)
	}
	second.sh(t, "mkdir .git/hdcache/mine; echo two >.git/hdcache/mine/two; rm -rf .git/hdcache/npm")
	first.remove(t)
	e.awaitPublished(t, subject(t))
	third := e.sleeper(t, mount(subject(t)))
	if got := third.sh(t, read+"; git status --porcelain --ignored; ls -d .git/hdcache/npm"); got != "one\n.git/hdcache/npm" {
		t.Errorf("the third container: got %q, want the first one's marker and a clean status", got)
	}
	third.sh(t, "rm -rf .git; rm -rf -- .[!.]* *; ls -A")
	second.remove(t)
	third.remove(t)
	e.awaitPublished(t, subject(t))
	if got := e.status(t, subject(t)); got["cache_unpublished"] != 0.0 || got["cache_bytes"] == 0.0 {
		t.Errorf("status: unpublished %v, %v bytes", got["cache_unpublished"], got["cache_bytes"])
	}
	e.docker(t, "volume", "rm", subject(t))

	// The cache belongs to the clone: another volume and another ref have it too.
	got := e.sh(t, mount("", "repo="+r.url, "ref=feature/x", "subject="+subject(t)), read)
	if got != "one\ntwo" {
		t.Errorf("another volume: got %q, want both markers", got)
	}
	if got := e.sh(t, mount("", "repo="+r.url, "subject="+subject(t)+"-other"), read); got != "none" {
		t.Errorf("another subject: got %q, want none", got)
	}
	// A device or setuid program in it does not work, and a read-only volume has a read-only cache.
	got = e.sh(t, mount("", "repo="+r.url, "subject="+subject(t)), "grep ' /w' /proc/self/mounts | cut -d' ' -f4")
	for options := range strings.SplitSeq(got, "\n") {
		if !strings.Contains(options, "nodev") || !strings.Contains(options, "nosuid") {
			t.Errorf("mount options %q, want nodev and nosuid", options)
		}
	}
	e.create(t, subject(t), "repo="+r.url, "subject="+subject(t))
	got = e.docker(t, "run", "--rm", "--volume", subject(t)+":/w:ro", image, "sh", "-c", "echo evil 2>/dev/null >/w/.git/hdcache/npm/evil || echo refused")
	if got != "refused" {
		t.Errorf("a read-only volume: %q", got)
	}
}

func TestCacheFolders(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	got := e.sh(t, mount("", "repo="+r.url, "subject="+subject(t), "cache_link=true"), "readlink .hdcache; ls .hdcache/")
	want := strings.Fields(".git/hdcache go-mod go-build npm pnpm yarn pip uv cargo maven gradle bundler composer nuget ccache env CACHEDIR.TAG")
	names := strings.Fields(got)
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf(".hdcache has no %s: %q", name, names)
		}
	}
}

func TestCacheOff(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "cache=off", "cache_link=true", "subject="+subject(t))
	if got := e.sh(t, m, "ls -d .hdcache .git/hdcache 2>/dev/null || echo none"); got != "none" {
		t.Errorf("got %q, want none", got)
	}
}

// If the repository itself has a file .hdcache, the plugin leaves it alone.
func TestCacheOfRepository(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	r.commit(t, "main", gitserver.Change{Path: ".hdcache", Content: "mine\n"})
	got := e.sh(t, mount("", "repo="+r.url, "subject="+subject(t), "cache_link=true"), "cat .hdcache; git status --porcelain; ls -d .git/hdcache/npm")
	if want := "mine\n.git/hdcache/npm"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The environment file leads each tool to its directory, wherever the volume is mounted.
func TestCacheEnv(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "subject="+subject(t), "cache_link=true")
	const want = "/w/.git/hdcache/go-mod /w/.git/hdcache/go-build /w/.git/hdcache/npm /w/.git/hdcache/pip /w/.git/hdcache/uv /w/.git/hdcache/cargo"
	for _, line := range []string{
		"HDCACHE=/w/.git/hdcache . /w/.git/hdcache/env",
		"HDCACHE=/w/.hdcache . /w/.hdcache/env", // the variables must not name the link
	} {
		got := e.sh(t, m, line+"; sh -c 'echo $GOMODCACHE $GOCACHE $npm_config_cache $PIP_CACHE_DIR $UV_CACHE_DIR $CARGO_HOME'")
		if got != want {
			t.Errorf("%s: got  %s\nwant %s", line, got, want)
		}
	}
}
