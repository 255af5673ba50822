package tests

import (
	"strings"
	"testing"
)

// Another user than root works as root does, and so does root beside it.
func TestUsers(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	users := []struct{ name, id, owner string }{
		{"root", "0:0", "0:0"},
		{"user", "1000:1000", "1000:1000"},
		{"other group", "1000:50", "1000:50"},
	}
	for _, u := range users {
		t.Run(u.name, func(t *testing.T) {
			uid, gid, _ := strings.Cut(u.id, ":")
			m := mount("", "repo="+r.url, "ref=main", "subject=users", "uid="+uid, "gid="+gid)
			flags := []string{"--user", u.id}
			same(t, u.name, e.sh(t, m, portrait, flags...), plain(t, r.url, "main"))
			got := e.sh(t, m, `
				stat -c %u:%g . README.md src .git .git/config .git/HEAD .git/refs .git/hdcache .hdcache/npm | sort -u
				echo `+u.name+` >mine; git add mine; git commit -qm mine
				git gc --quiet; git fsck --no-progress --no-dangling
				echo cached >.hdcache/pip/mine; echo more >>README.md; rm -rf src; git checkout -q src; git stash -q
				git push -q origin HEAD:refs/heads/by-`+uid+`-`+gid+`
				git status --porcelain`, flags...)
			if got != u.owner {
				t.Errorf("got %q, want the owner %s and nothing else", got, u.owner)
			}
			if got := hostGit(t, r.Path(app), "show", "by-"+uid+"-"+gid+":mine"); got != u.name {
				t.Errorf("pushed %q, want %q", got, u.name)
			}
		})
	}
	if got := e.sh(t, mount("", "repo="+r.url, "subject=users", "uid=1000", "gid=1000"), "git log -1 --format=%H main", "--user", "1000:1000"); got != r.head {
		t.Errorf("afterwards: got %s, want %s", got, r.head)
	}
}
