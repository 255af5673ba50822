// Package testgit has what tests of git have in common: servers with repositories, git itself as it runs in a container,
// programs in its place, directories that another uid may use, and commits of any trees.
package testgit

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// Trees makes commits in a store from what they hold.
type Trees struct {
	T     T
	Store string
}

// T is what *testing.T and *rapid.T have in common.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Git runs git in the store and returns its output.
func (w Trees) Git(stdin string, env []string, args ...string) string {
	w.T.Helper()
	cmd := Command("", append([]string{"--git-dir=" + w.Store}, args...)...)
	cmd.Stdin, cmd.Env = strings.NewReader(stdin), append(cmd.Env, env...)
	out, err := cmd.Output()
	if err != nil {
		w.T.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

// Blob writes a file's content, and returns its ID.
func (w Trees) Blob(content string) string {
	return w.Git(content, nil, "hash-object", "-w", "--stdin")
}

// Commit makes one of files, each with its mode and object ID, and returns it.
func (w Trees) Commit(files map[string]string) string {
	w.T.Helper()
	index := filepath.Join(w.Store, "index.test")
	defer os.Remove(index)
	env := []string{"GIT_INDEX_FILE=" + index}
	var stdin strings.Builder
	for name, info := range files {
		fmt.Fprintf(&stdin, "%s\t%s\x00", info, name)
	}
	w.Git("", env, "read-tree", "--empty")
	w.Git(stdin.String(), env, "update-index", "-z", "--index-info")
	return w.Git("", nil, "commit-tree", "-m", "m", w.Git("", env, "write-tree"))
}

// Entry is one of a Tree: "mode name", NUL and ID.
func (w Trees) Entry(mode, name, id string) string {
	w.T.Helper()
	b, err := hex.DecodeString(id)
	if err != nil {
		w.T.Fatalf("%v", err)
	}
	return mode + " " + name + "\x00" + string(b)
}

// Tree writes a tree that git itself might not make, and returns its ID.
func (w Trees) Tree(entries ...string) string {
	w.T.Helper()
	return w.Git(strings.Join(entries, ""), nil, "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
}

// CommitTree makes a commit of a Tree.
func (w Trees) CommitTree(entries ...string) string {
	w.T.Helper()
	return w.Git("", nil, "commit-tree", "-m", "m", w.Tree(entries...))
}

// Scratch is testdir.New in a root filesystem; root may be empty.
func Scratch(t testing.TB, root string) string {
	t.Helper()
	return testdir.NewIn(t, filepath.Join(root, "/var/tmp"), "git")
}

// Owned makes an empty directory that belongs to uid.
func Owned(t testing.TB, root string, uid int) string {
	t.Helper()
	dir := filepath.Join(Scratch(t, root), "owned")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Script makes a program of a shell script, alone in a directory, and returns its path.
func Script(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(Scratch(t, ""), "program")
	// No child that is started meanwhile may have it open for writing when it is executed.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
