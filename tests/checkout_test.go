package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// treePortrait prints everything in which the trees of two commits can differ: commit, branch,
// status, index, and the names, modes and contents of the files. It leaves out the plugin's own
// link.
const treePortrait = `
	export LC_ALL=C
	echo "commit $(git rev-parse HEAD)"
	echo "branch $(git symbolic-ref -q HEAD || echo none)"
	git status --porcelain --branch
	git ls-files --stage
	find . -mindepth 1 -path ./.git -prune -o ! -type l -print0 | sort -z | xargs -0 stat -c 'mode %a %n'
	find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 sha1sum
	find . -path ./.git -prune -o -type l -print | sort | while read -r link; do
		echo "link $link $(readlink "$link")"
	done
`

// portrait prints everything in which two checkouts can differ: the tree, all refs, and the
// remotes. It ends with git fsck.
const portrait = treePortrait + `
	git for-each-ref --format='ref %(refname) %(objectname) %(symref)'
	git config --get-regexp '^(remote|branch)\.' | sort
	git fsck --full --no-dangling --no-progress
	echo whole
`

// hostGit runs git on the host without any configuration.
func hostGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return hostScript(t, dir, `exec git "$@"`, args...)
}

func hostScript(t *testing.T, dir, script string, args ...string) string {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-euc", "umask 022; " + script, "sh"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", strings.TrimSpace(script), args, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// plain returns the portrait of a plain git clone of a URL at a ref; an empty ref is the remote's
// default. A full commit ID is checked out after the clone and the branch is removed, so that the
// clone is like that of a tag.
func plain(t *testing.T, url, ref string) string {
	t.Helper()
	return runInPlainClone(t, url, ref, portrait)
}

// runInPlainClone returns the output of a script in a plain git clone.
func runInPlainClone(t *testing.T, url, ref, script string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "plain")
	defer os.RemoveAll(dir)
	args := []string{"clone", "--quiet", "--config", "advice.detachedHead=false"}
	isCommit := len(ref) == 40
	if ref != "" && !isCommit {
		args = append(args, "--branch", ref)
	}
	hostGit(t, "/", append(args, url, dir)...)
	if isCommit {
		hostGit(t, dir, "checkout", "--quiet", "--detach", ref)
		hostGit(t, dir, "branch", "--quiet", "--delete", "--force", "main")
	}
	return hostScript(t, dir, script)
}

// same checks that two portraits are equal. Its error shows the first lines in which they differ.
func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	t.Errorf("%s: differs from a plain clone:\n only here:  %s\n only there: %s", what, missing(g, w), missing(w, g))
}

// missing returns the first lines of a, at most eight, that b does not have.
func missing(a, b []string) string {
	inB := map[string]bool{}
	for _, line := range b {
		inB[line] = true
	}
	var lines []string
	for _, line := range a {
		if !inB[line] && len(lines) < 8 {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n             ")
}

// stamp is the content of .git/helmdeck.json, which describes a checkout.
type stamp struct {
	Volume    string `json:"volume"`
	Subject   string `json:"subject"`
	Repo      string `json:"repo"`
	Ref       string `json:"ref"`
	Commit    string `json:"commit"`
	Reused    bool   `json:"reused"`
	PulledSHA string `json:"pulled_sha"`
	Time      string `json:"time"`
}

const printStamp = "cat /w/.git/helmdeck.json"

func parseStamp(t *testing.T, text string) stamp {
	t.Helper()
	var s stamp
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("helmdeck.json: %v: %s", err, text)
	}
	return s
}
