package workspace

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// npm does to node_modules what npm 10 does, with packages that are one file each and
// a lock file with a name and a version per line: ci removes all packages first, install
// changes those that differ. It prints the packages that it writes. The tests do not use
// the real npm, because it consists of several hundred packages.
const npm = `#!/bin/sh
set -eu
[ "$1" != ci ] || rm -rf node_modules
mkdir -p node_modules
while read -r name version; do
	[ "$version" = "$(cat "node_modules/$name" 2>/dev/null)" ] && continue
	echo "$version" >"node_modules/$name"
	printf '%s ' "$name"
done <package-lock.json
for name in $(ls node_modules); do
	grep -q "^$name " package-lock.json || rm "node_modules/$name"
done
`

// TestWarmInstall: the commands of docs/how-to/warm-directories.md write no package that an earlier workspace
// left. npm ci alone would, so the page has a guard for it.
func TestWarmInstall(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/how-to/warm-directories.md")
	if err != nil {
		t.Fatal(err)
	}
	line := func(after string) string {
		_, rest, _ := strings.Cut(string(page), after)
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	locks := []string{"a 1\nb 1\nc 1\n", "a 1\nb 1\nc 1\n", "a 1\nb 2\nd 1\n", "a 1\nb 2\nd 1\n"}
	for _, tt := range []struct {
		name, command string
		want          []string // the packages that are written, by lock file
	}{
		{"the example", line(" -w /w node "), []string{"a b c", "", "b d", ""}},
		{"the guard", line("```sh\n"), []string{"a b c", "", "a b d", ""}},
		{"npm ci", "npm ci", []string{"a b c", "a b c", "a b d", "a b d"}},
	} {
		w := newCheckpointWorld(t)
		for i, lock := range locks {
			_, dir := w.open("v", "1", "warm", "node_modules")
			put(t, dir, "package-lock.json", lock)
			cmd := exec.Command("sh", "-euc", tt.command)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != tt.want[i] {
				t.Errorf("%s (%s), run %d: wrote %q, %v; want %q", tt.name, tt.command, i, got, err, tt.want[i])
			}
			for _, name := range []string{"a", "b", "c", "d"} {
				_, version, _ := strings.Cut("\n"+lock, "\n"+name+" ")
				version, _, _ = strings.Cut(version, "\n")
				if version != "" {
					version += "\n"
				}
				wantFile(t, dir, "node_modules/"+name, version)
			}
			w.end("v", "1")
		}
	}
}
