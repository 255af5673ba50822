package hostile

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

func init() {
	groups = append(groups, func() []attack { return repositories("repository", hostile.Checkout, nil) })
}

// bombs are the repositories that are no cases here. tree-bomb is a case of sizeAttacks.
// blob-bombs, with a thousand files of zeros, costs nothing but time, because git writes zeros as
// holes.
var bombs = map[string]bool{"tree-bomb": true, "blob-bombs": true}

// plain is the control's script for a case that has none: a careless use of git.
const plain = `git clone -q "$REPO" w; git -C w status --short; git -C w log -1 -p; true`

// careless has the same for each need of a case.
var careless = map[hostile.Need]string{
	hostile.Checkout:   plain,
	hostile.Submodules: `export GIT_ALLOW_PROTOCOL=http:https:ssh:file:ext; timeout 15 git -c protocol.allow=always clone -q --recurse-submodules "$REPO" w; cat w/sub/*; git -C w status --short; true`,
	hostile.LFS: `timeout 15 git -c filter.lfs.process='git-lfs filter-process' -c filter.lfs.smudge='git-lfs smudge -- %f' -c filter.lfs.required=true ` +
		`-c lfs.transfer.maxretries=1 clone -q "$REPO" w; true`,
}

// repositories returns the attacks by the hostile repositories with a need, which the volume's
// options serve.
func repositories(group string, need hostile.Need, options map[string]string) []attack {
	var all []attack
	for _, c := range hostile.Cases() {
		if c.Need != need || bombs[c.Name] {
			continue
		}
		a := attack{group: group, name: c.Name, abuses: c.Abuses, control: control{script: c.Control, effect: c.Effect, repo: serve(c)}, run: mountAll(c, options)}
		if c.CVE != "" {
			a.abuses += " (" + c.CVE + ")"
		}
		if c.Control == "" {
			a.control.script, a.control.harmless = careless[need], c.CVE == ""
		}
		all = append(all, a)
	}
	return all
}

// serve returns a function that builds and serves a hostile repository, and returns its URL.
func serve(c hostile.Case) func(t *testing.T, name string, tr *trap) string {
	return func(t *testing.T, name string, tr *trap) string {
		t.Helper()
		if _, err := c.Build(filepath.Join(scratch, "repos"), name, tr.Bait); err != nil {
			t.Fatal(err)
		}
		faults := c.Faults(server.Path(name), tr.Bait)
		if c.Need == hostile.LFS {
			faults = append(faults, largeFiles(""))
		}
		server.Route(name, faults...)
		return server.URL(name)
	}
}

// mountAll does with a hostile repository what users do: it makes a volume and starts two
// containers, one after the other.
func mountAll(c hostile.Case, options map[string]string) func(s *scene) {
	return func(s *scene) {
		given := map[string]string{"repo": serve(c)(s.T, s.volume, s.trap)}
		for name, value := range options {
			given[name] = value
		}
		s.mountTwice(given)
	}
}

// mountTwice creates the volume and mounts it twice. It stops when the plugin refuses one of these,
// which is a good outcome too. Each workspace must pass wantTree.
func (s *scene) mountTwice(options map[string]string) {
	s.Helper()
	if err := s.create(options); err != nil {
		s.outcome = "refused"
		return
	}
	for _, id := range []string{"first", "second"} {
		tree, err := s.mount(id)
		if err != nil {
			s.outcome = "refused"
			return
		}
		s.wantTree(tree)
		s.unmount(id)
	}
	s.outcome = "mounted"
}

// wantTree checks that a workspace has only files, directories and symlinks, without setuid bits,
// and that its .git starts no program.
func (s *scene) wantTree(tree string) {
	s.Helper()
	if path := s.findSecret(tree); path != "" {
		s.Errorf("the secret from outside is in %s", path)
	}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == filepath.Join(tree, ".git/hdcache") {
			return fs.SkipDir // containers may write anything to the cache
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode()
		if kind := mode.Type(); kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink || mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			s.Errorf("%s is %v", path, mode)
		}
		return nil
	})
	if err != nil {
		s.Errorf("walk: %v", err)
	}
	hooks, err := os.ReadDir(filepath.Join(tree, ".git/hooks"))
	if err != nil {
		s.Errorf(".git/hooks: %v", err)
	}
	for _, hook := range hooks { // those of git-lfs are ours
		data, err := os.ReadFile(filepath.Join(tree, ".git/hooks", hook.Name()))
		if err != nil || !bytes.Equal(data, lfs.Hook()) || !slices.Contains(lfs.Hooks, hook.Name()) {
			s.Errorf(".git/hooks/%s is %q, %v", hook.Name(), data, err)
		}
	}
	config, err := os.ReadFile(filepath.Join(tree, ".git/config"))
	if err != nil || strings.Contains(string(config), "fsmonitor") || strings.Contains(string(config), "hooksPath") {
		s.Errorf(".git/config is %q, %v", config, err)
	}
	for _, name := range []string{"", "objects", "refs", "hooks", "hdcache"} {
		if info, err := os.Lstat(filepath.Join(tree, ".git", name)); err != nil || !info.IsDir() {
			s.Errorf(".git/%s is not a directory: %v", name, err)
		}
	}
}
