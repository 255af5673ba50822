package cache

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/helmdeck/repos/tests/environ"
)

// TestLeaveOut runs the commands with which docs/caches.md leaves the caches out, as far as the machine has the
// programs: they find the files of the work tree and of .git, and none of the cache.
func TestLeaveOut(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/caches.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rows, _ := strings.Cut(string(page), "| program | command |\n")
	// lists prints what a command has made at /tmp/w*, which is $OUT here.
	lists := map[string]string{"tar": "tar -tf $OUT/w.tar", "zip": "unzip -Z1 $OUT/w.zip", "rsync": "find $OUT/w"}
	tested := 0
	for row := range strings.Lines(rows) {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			break // the table has ended
		}
		for _, found := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			line := strings.NewReplacer("PATTERN", "needle", "/tmp/w", "$OUT/w", "du -sh", "du -ah").Replace(found[1])
			program := strings.Fields(line)[0]
			if program == "inotifywait" || program == "git" {
				continue // it does not end, or does not look into .git
			}
			if lists[program] != "" {
				line += " && " + lists[program]
			}
			if _, err := exec.LookPath(program); err != nil {
				continue
			}
			work := t.TempDir()
			for _, name := range []string{"src/plain", ".git/HEAD", ".git/hdcache/npm/cached", ".git/hdcache/env"} {
				path := filepath.Join(work, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte("needle in "+filepath.Base(name)+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(".git/hdcache", filepath.Join(work, ".hdcache")); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-euc", line)
			cmd.Dir, cmd.Env = work, append(os.Environ(), "OUT="+t.TempDir())
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "plain") || !strings.Contains(string(out), "HEAD") ||
				strings.Contains(string(out), "cached") || strings.Contains(string(out), "env") {
				t.Errorf("%s: %v\n%s", line, err, out)
			}
			tested++
		}
	}
	if tested < 4 { // find, grep, du and tar are everywhere
		t.Errorf("only %d commands were tested", tested)
	}
}
