package hostile

import (
	"compress/gzip"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/wait"
)

func init() { groups = append(groups, sizeAttacks) }

// sizeAttacks returns the attacks by small downloads that need more memory than the machine has, or
// more disk than the narrow plugin has.
func sizeAttacks() []attack {
	full := attack{group: "size", name: "blobs", abuses: "twenty names for a file of 100 MiB: more than the disk has", on: func() *plugin { return narrow }}
	full.control = control{effect: hostile.Fails, repo: manyOfOne,
		// The control gets a small disk of its own, because it would fill any disk.
		script: `mkdir m && mount -t tmpfs -o size=256m small m && timeout 15 git clone -q "$REPO" m/w; code=$?; umount --lazy m; exit $code`}
	full.run = func(s *scene) {
		s.mountInTheEnd(map[string]string{"repo": manyOfOne(s.T, s.volume, s.trap)})
		if s.outcome != "refused" || !strings.Contains(s.said.String(), "out of disk") {
			s.Errorf("the mount was %s, want it refused because of the full disk: %s", s.outcome, s.said.String())
		}
	}
	all := []attack{full}
	for _, c := range hostile.Cases() {
		if c.Name == "tree-bomb" {
			all = append(all, attack{
				group: "size", name: c.Name, abuses: c.Abuses,
				control: control{script: limited + `git clone -q "$REPO" w`, effect: hostile.Fails, repo: serve(c)},
				run:     mountAll(c, nil),
			})
		}
	}
	return all
}

// mountInTheEnd is mountTwice for a checkout that may take longer than MOUNT_WAIT: it mounts again until no work goes on.
func (s *scene) mountInTheEnd(options map[string]string) {
	s.Helper()
	if err := s.create(options); err != nil {
		s.outcome = "refused"
		return
	}
	wait.For(s, "the end of the checkout", func() error {
		tree, err := s.mount("first")
		if err == nil {
			s.outcome = "mounted"
			s.wantTree(tree)
			s.unmount("first")
			return nil
		}
		s.outcome = "refused"
		return wait.Check(!strings.Contains(err.Error(), "continues in the background"), "%v", err)
	})
}

// manyOfOne makes a repository with many names for one large file. The file has no zeros, because
// git writes zeros as holes.
func manyOfOne(t *testing.T, name string, _ *trap) string {
	t.Helper()
	cmd := exec.Command("sh", "-euc", `
		git init -q --bare -b main "$1" && cd "$1"
		id=$(head -c 100M /dev/zero | tr '\0' a | git hash-object -w --stdin)
		tree=$(for i in $(seq 10 29); do printf '100644 blob %s\t%s\n' $id $i; done | git mktree)
		git update-ref refs/heads/main "$(git commit-tree -m begin "$tree")"`, "sh", server.Path(name))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a repository with a large file: %v: %s", err, out)
	}
	return server.URL(name)
}

// zipBomb answers ls-refs with compressed refs, which have size bytes when they are unpacked.
func zipBomb(size int64) gitserver.Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			w.Header().Set("Content-Encoding", "gzip")
			zip, _ := gzip.NewWriterLevel(w, gzip.BestSpeed) // the level is a valid one
			ref := []byte(strings.Repeat(packet(strings.Repeat("ab", 20)+" refs/heads/"+strings.Repeat("a", 200)+"\n"), 1000))
			for sent := int64(0); sent < size; sent += int64(len(ref)) {
				if _, err := zip.Write(ref); err != nil {
					return
				}
			}
			zip.Close()
		})
	}
}
