package main

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/short"
)

// TestEmptied: a container may remove .git, and everything else, also what it has from caches and warm directories, in each volume
// but those with auth=container. The next one has all again.
func TestEmptied(t *testing.T) {
	t.Parallel()
	p := start(t, scratch(t))
	repo := remote(t).URL("sample")
	scripts := []string{"rm -rf .git; rm -rf -- .[!.]* *", "find . -mindepth 1 -delete", "git clean -ffdxq; git rm -qr .; rm -r .git; rm -rf node_modules"}
	for i, options := range []map[string]string{
		{}, {"mode": "shared"}, {"mode": "keep"}, {"warm": "node_modules"}, {"cache": "off"}, {"cache_link": "true"}, {"publish": "never"},
		{"filter": "blob:none"}, {"uid": "1234", "gid": "1234", "warm": "node_modules"},
	} {
		t.Run(fmt.Sprint(options), func(t *testing.T) {
			short.OneOf(t, 3)
			t.Parallel()
			p := *p
			p.t = t
			given := map[string]string{"repo": repo, "subject": fmt.Sprint("s", i), "refresh": "never"}
			maps.Copy(given, options)
			uid := options["uid"]
			if uid == "" {
				uid = "0"
			}
			run := func(id, script string) {
				t.Helper()
				volume := fmt.Sprint("v", i, "-", id)
				p.create(volume, given)
				if out, err := inContainer(p.mount(volume, "1"), uid, script); err != nil || out != "" {
					t.Errorf("%s: %v: %s", script, err, out)
				}
				p.unmount(volume, "1")
			}
			const has = "test -f README.md; git status --porcelain | grep -v node_modules || :"
			fill := "mkdir -p node_modules; echo x >node_modules/x"
			if options["cache"] != "off" {
				fill += "; mkdir .git/hdcache/mine; echo x >.git/hdcache/mine/x"
			}
			run("first", fill)
			for n, script := range scripts {
				run(fmt.Sprint(n), has+"; "+script+"; ls -A")
			}
			run("last", has)
		})
	}
}

// TestEmptiedWithCredential: with auth=container, what empties the work tree fails as the page says.
func TestEmptiedWithCredential(t *testing.T) {
	t.Parallel()
	p := start(t, scratch(t))
	s := private(t, p, "tok3n-of-sample")
	p.create("v", map[string]string{"repo": s.URL("sample"), "auth": "container"})
	page, err := os.ReadFile("../docs/how-to/private-repositories.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "so programs that remove `.git`, or all that is in the work tree, fail there\n(`")
	want, _, found := strings.Cut(rest, "`)")
	if !found {
		t.Fatal("docs/how-to/private-repositories.md does not say what rm prints")
	}
	for _, script := range []string{"rm -rf .git", "rm -rf -- .[!.]* *"} {
		out, err := inContainer(p.mount("v", script), "0", script)
		if err == nil || !strings.Contains(out, want+"\n") {
			t.Errorf("%s: %v: %s, want %q", script, err, out, want)
		}
		p.unmount("v", script)
	}
}
