package hostile

import (
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
)

func init() { groups = append(groups, submoduleAttacks, lfsAttacks) }

func submoduleAttacks() []attack {
	return repositories("submodule", hostile.Submodules, map[string]string{"submodules": "recursive"})
}

// lfsAttacks returns the attacks through LFS. The server's large file is the first line of the
// secret, so that only the second line must stay outside.
func lfsAttacks() []attack {
	all := repositories("lfs", hostile.LFS, map[string]string{"lfs": "true"})
	elsewhere := attack{group: "lfs", name: "href", abuses: "an honest .lfsconfig, and a server that sends transfers to loopback",
		control: control{script: careless[hostile.LFS], effect: hostile.Asks}}
	elsewhere.control.repo = func(t *testing.T, name string, tr *trap) string {
		t.Helper()
		pointer := lfsserver.PointerTo(hostile.Secret).String()
		if _, err := gitserver.Generate(server.Path(name), gitserver.Spec{}); err != nil {
			t.Fatal(err)
		}
		if _, err := gitserver.Commit(server.Path(name), "main", gitserver.Change{Path: ".gitattributes", Content: lfsserver.Attributes},
			gitserver.Change{Path: "model.bin", Content: pointer}); err != nil {
			t.Fatal(err)
		}
		server.Route(name, largeFiles(tr.URL+"/"))
		return server.URL(name)
	}
	elsewhere.run = func(s *scene) {
		s.mountTwice(map[string]string{"repo": elsewhere.control.repo(s.T, s.volume, s.trap), "lfs": "true"})
	}
	all = append(all, elsewhere)
	for i := range all {
		all[i].prepare = func(_ *testing.T, tr *trap) { tr.secret = secondLine }
	}
	return all
}

// largeFiles serves the large file of all cases, at the URL href if that is not empty.
func largeFiles(href string) gitserver.Fault {
	large := new(lfsserver.Server)
	large.Put(hostile.Secret)
	if href != "" {
		large.Href(href)
	}
	return large.Serve
}
