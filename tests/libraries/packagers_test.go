package libraries

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// packagers are programs that pack or copy the work tree in which they run, and do not ask git what to ignore. Each prints
// the names that it took. The directory above is theirs.
var packagers = []struct {
	name    string
	command string
	without string // the command that leaves out the link to the cache, or a line of .gitignore, as the page says
	list    string
	before  string
}{
	{"hatchling", "/usr/bin/python3 -m hatchling build -t sdist -d ../w", "/.hdcache", "tar -tf ../w/*.tar.gz", ""},
	{"dpkg-source", "dpkg-source -b .", `dpkg-source --extend-diff-ignore='^\.hdcache$' -b .`, "tar -tf ../app_1.0-1.debian.tar.*",
		`git archive --prefix=app-1.0/ HEAD ':!debian' | gzip >../app_1.0.orig.tar.gz; `},
	{"dpkg-source of a native package", "dpkg-source -b .", "dpkg-source -I -I.hdcache -b .", "tar -tf ../app_1.0.tar.*",
		`echo "3.0 (native)" >debian/source/format; sed -i s/1.0-1/1.0/ debian/changelog; `},
	{"rsync", "rsync -aL --exclude=/.git ./ ../w/", "rsync -aL --exclude=/.git --exclude=/.hdcache ./ ../w/", "cd ../w; find .", ""},
	{"zip", "zip -qr ../w.zip . -x '.git/*'", "zip -qr ../w.zip . -x '.git/*' '.hdcache/*'", "/usr/bin/python3 -m zipfile -l ../w.zip | cut -d' ' -f1", ""},
	{"tar", "tar --exclude=./.git -cf ../w.tar .", "tar --exclude=./.git --exclude=./.hdcache -cf ../w.tar .", "tar -tf ../w.tar", ""},
}

// packed is a repository that hatchling and dpkg-source can pack.
var packed = map[string]string{
	".gitignore":           "*.log\n",
	"pyproject.toml":       "[build-system]\nrequires = [\"hatchling\"]\nbuild-backend = \"hatchling.build\"\n[project]\nname = \"app\"\nversion = \"1.0\"\n",
	"src/app/__init__.py":  "x = 1\n",
	"debian/source/format": "3.0 (quilt)\n",
	"debian/changelog":     "app (1.0-1) unstable; urgency=low\n\n  * x\n\n -- A <a@example.com>  Mon, 01 Jan 2024 00:00:00 +0000\n",
	"debian/control":       "Source: app\nMaintainer: A <a@example.com>\nStandards-Version: 4.6.0\n\nPackage: app\nArchitecture: all\nDescription: x\n x\n",
	"debian/rules":         "#!/usr/bin/make -f\n%:\n\tdh $@\n",
}

// TestPackagers: of a workspace with a cache, each program takes what it takes of a plain clone. With cache_link=true it
// does so if it is told to leave out the link, as docs/caches.md says.
func TestPackagers(t *testing.T) {
	server := testgit.Serve(t)
	testgit.Git(t, "/", "init", "-q", "--bare", "--initial-branch=main", server.Path("app"))
	dir := testdir.New(t, "packagers")
	work := filepath.Join(dir, "work")
	testgit.Git(t, "/", "clone", "-q", server.Path("app"), work)
	for name, text := range packed {
		write(t, filepath.Join(work, name), text)
	}
	testgit.Git(t, work, "add", "-A")
	testgit.Git(t, work, "commit", "-q", "-m", "one")
	testgit.Git(t, work, "push", "-q", "origin", "HEAD:main")
	d, err := daemon.Start(t, daemon.Config{Program: program, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Kill() })
	engine := daemon.Dial(daemon.Config{Dir: dir}.Socket())
	page, err := os.ReadFile("../../docs/caches.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"false", "true"} {
		volume := "link-" + link
		if err := engine.Create(t.Context(), volume, map[string]string{"repo": server.URL("app"), "cache_link": link}); err != nil {
			t.Fatal(err)
		}
		for i, p := range packagers {
			t.Run(p.name+" "+volume, func(t *testing.T) {
				id := fmt.Sprint(i)
				mounted, err := engine.Mount(t.Context(), volume, id)
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(mounted, ".git/hdcache/npm/left"), "by another container\n")
				plain := filepath.Join(testdir.New(t, "plain"), "app")
				testgit.Git(t, "/", "clone", "-q", server.URL("app"), plain)
				command, before := p.command, p.before
				if link == "true" {
					if !strings.Contains(string(page), "`"+strings.ReplaceAll(p.without, "../w", "/tmp/w")+"`") {
						t.Errorf("docs/caches.md does not say %s", p.without)
					}
					if strings.HasPrefix(p.without, "/") {
						before += "echo " + p.without + " >>.gitignore; "
					} else {
						command = p.without
					}
				}
				want := pack(t, plain, p.before+p.command, p.list)
				got := pack(t, mounted, before+command, p.list)
				if got != want {
					t.Errorf("%s\n got %s\nwant %s", command, got, want)
				}
				if err := engine.Unmount(t.Context(), volume, id); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// pack runs a command in a work tree, below a directory that takes what it makes, and returns the sorted lines that list
// prints about it.
func pack(t *testing.T, tree, command, list string) string {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "sh", "-euc", `mkdir app; mount --rbind "$0" app; cd app; { `+command+"; } >../said 2>&1 || { cat ../said; exit 1; }; { "+list+"; } | sort", tree)
	cmd.Dir = testdir.New(t, "pack")
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return string(out)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
