package tests

import (
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// docker run works without creating a volume first. The clone outlives the anonymous volume.
func TestRunWithoutVolume(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "ref=main", "subject="+subject(t))

	for i, reused := range []bool{false, true, true} {
		got := parseStamp(t, e.sh(t, m, printStamp))
		if got.Reused != reused || got.Commit != r.head || strings.TrimPrefix(got.Ref, "refs/heads/") != "main" || got.Subject != subject(t) || got.Repo != r.url {
			t.Errorf("run %d: got %+v, want reused %v, commit %s", i, got, reused, r.head)
		}
		if slices.Contains(e.volumes(t), got.Volume) {
			t.Errorf("run %d: the anonymous volume %s still exists", i, got.Volume)
		}
	}
	if got := r.Stats(app); got.Clones != 1 || got.Fetches != 1 {
		t.Errorf("the server saw %+v, want one clone and no other fetch", got)
	}
	e.awaitReclaimed(t, subject(t))
}

// docker rm --volumes removes a container's anonymous volume, but not the clone.
func TestRemoveWithVolumes(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "subject="+subject(t))
	first := e.sleeper(t, m)
	name := parseStamp(t, first.sh(t, printStamp)).Volume
	if !slices.Contains(e.volumes(t), name) {
		t.Errorf("volume %s is not listed: %q", name, e.volumes(t))
	}
	first.remove(t)
	if slices.Contains(e.volumes(t), name) {
		t.Errorf("volume %s is still listed", name)
	}
	if got := parseStamp(t, e.sh(t, m, printStamp)); !got.Reused {
		t.Errorf("got %+v, want it reused", got)
	}
	if got := r.Stats(app).Clones; got != 1 {
		t.Errorf("the server saw %d clones, want 1", got)
	}
}

// If the image has a directory at the target, the engine mounts the volume once more before the
// start, to copy files to it.
func TestImageWithDirectoryAtTarget(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "ref=main", "subject="+subject(t))
	same(t, "the checkout", e.sh(t, m, portrait, "--workdir", "/w"), plain(t, r.url, "main"))
	e.awaitReclaimed(t, subject(t))
}

// For every kind of ref a container sees the same checkout as after git clone.
func TestRefs(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	old := r.tip(t, "v1.0.0")
	pull := r.commit(t, "refs/pull/7/head", gitserver.Change{Path: "pull", Content: "pull\n"})
	cases := []struct {
		name, ref string
		like      string // the ref for git clone; "-" if git clone cannot check out such a ref
		commit    string
	}{
		{"default", "", "", r.head},
		{"branch", "main", "main", r.head},
		{"branch with a slash", "feature/x", "feature/x", r.tip(t, "feature/x")},
		{"other branch", "release-1.0", "release-1.0", r.tip(t, "release-1.0")},
		{"annotated tag", "v1.0.0", "v1.0.0", old},
		{"plain tag", "nightly", "nightly", r.head},
		{"commit", old, old, old},
		{"abbreviated commit", old[:10], old, old},
		{"full ref of a branch", "refs/heads/feature/x", "feature/x", r.tip(t, "feature/x")},
		{"full ref of a tag", "refs/tags/v1.0.0", "v1.0.0", old},
		{"pull request", "refs/pull/7/head", "-", pull},
	}
	like := map[string]string{}
	for _, c := range cases {
		if c.like != "-" && like[c.like] == "" {
			like[c.like] = plain(t, r.url, c.like)
		}
	}
	r.Reset()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			options := []string{"repo=" + r.url, "subject=refs"}
			if c.ref != "" {
				options = append(options, "ref="+c.ref)
			}
			out := e.sh(t, mount("", options...), printStamp+"; echo; echo ---; "+portrait)
			head, picture, _ := strings.Cut(out, "\n---\n")
			if got := parseStamp(t, head).Commit; got != c.commit {
				t.Errorf("helmdeck.json: got commit %s, want %s", got, c.commit)
			}
			if c.like != "-" {
				same(t, c.name, picture, like[c.like])
				return
			}
			for _, want := range []string{"commit " + c.commit + "\n", "branch none\n", "\nwhole"} {
				if !strings.Contains(picture+"\n", want) {
					t.Errorf("the checkout has no line %q", want)
				}
			}
		})
	}
	if got := r.Stats(app).Clones; got != 1 {
		t.Errorf("the server saw %d clones, want 1", got)
	}
}

// Creating a volume again with the same options is not an error.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	name := subject(t)
	options := []string{"repo=" + r.url, "ref=main", "subject=" + subject(t)}
	e.create(t, name, options...)
	e.create(t, name, options...)
	e.sh(t, mount(name, options...), "git status")

	status := e.status(t, name)
	for key, want := range map[string]any{
		"subject": subject(t), "repo": r.url, "ref": "main", "commit": r.head, "mode": "private",
	} {
		if got := status[key]; got != want {
			t.Errorf("status %s: got %v, want %v", key, got, want)
		}
	}
	e.docker(t, "volume", "rm", name)
	if got := e.volumes(t); slices.Contains(got, name) {
		t.Errorf("the volume is still listed: %q", got)
	}
}
