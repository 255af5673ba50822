package caches

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRecipeSecrets: what a container has logged in with, or configured, in the homes of its tools, is in no layer and in no other
// container. What it has downloaded with that is.
func TestRecipeSecrets(t *testing.T) {
	t.Parallel()
	tool := cargoTool(t)
	env := append(tool.env, "ROUND=1")
	w := newWorld(t)
	c := w.start()
	const secret = "tok3n-of-a-container"
	login := `
export CARGO_REGISTRIES_PRIVATE_INDEX="sparse+$REGISTRY/"
echo ` + secret + ` | cargo login --registry private
grep -q ` + secret + ` "$CARGO_HOME/credentials.toml"
echo "password=` + secret + `" >"$GRADLE_USER_HOME/gradle.properties"
echo "<password>` + secret + `</password>" >"$HDCACHE/maven/settings.xml"
echo "//registry.example.com/:_authToken=` + secret + `" >"$HDCACHE/npm/.npmrc"
mkdir "$HDCACHE/docker"; echo '{"auth": "` + secret + `"}' >"$HDCACHE/docker/config.json"
`
	want, out, err := c.run(false, login+tool.script, env...)
	if err != nil || want == "" {
		t.Fatalf("%v\n%s", err, out)
	}
	c.end()
	w.published()
	next := w.start()
	next.want("the next container", true, want, tool.script, env...)
	for _, dir := range []string{filepath.Join(next.dir, ".git/hdcache"), filepath.Join(w.d.DataDir(), "clones")} {
		if found, err := exec.Command("grep", "-rl", secret, dir).Output(); err == nil || len(found) > 0 {
			t.Errorf("the secret is in\n%s", found)
		}
	}
	next.end()
}
