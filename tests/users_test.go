package tests

import (
	"strings"
	"testing"
)

// Users other than root can work in the same way as root, in the same clone.
func TestUsers(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	want := plain(t, r.url, "main")
	for _, user := range []string{"0:0", "1000:1000", "1000:50"} {
		t.Run(user, func(t *testing.T) {
			uid, gid, _ := strings.Cut(user, ":")
			m := mount("", "repo="+r.url, "ref=main", "subject=users", "uid="+uid, "gid="+gid)
			same(t, "the checkout", e.sh(t, m, portrait, "--user", user), want)

			got := e.sh(t, m, `
				stat -c %u:%g . README.md src .git .git/config .git/HEAD .git/refs | sort -u
				echo `+user+` >mine; git add mine; git commit -qm mine
				git gc --quiet; git fsck --no-progress --no-dangling
				echo more >>README.md; rm -rf src; git checkout -q src; git stash -q
				for folder in .git/hdcache/*/; do echo cached >"$folder/mine"; done
				git status --porcelain`, "--user", user)
			if got != user {
				t.Errorf("got %q, want the owner %s and nothing else", got, user)
			}
		})
	}
}

// A user other than root can commit and push.
func TestPushAsUser(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "subject="+subject(t), "uid=1000", "gid=1000")
	got := e.sh(t, m, "echo mine >mine; git add mine; git commit -qm mine; git push -q origin main; git rev-parse origin/main", "--user", "1000:1000")
	if want := r.tip(t, "main"); got != want || want == r.head {
		t.Errorf("pushed %s, the server has %s", got, want)
	}
	if got := e.sh(t, m, "git rev-parse HEAD", "--user", "1000:1000"); got != r.tip(t, "main") {
		t.Errorf("the next mount is at %s, want %s", got, r.tip(t, "main"))
	}
}
