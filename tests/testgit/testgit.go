// Package testgit has helpers for tests of git: servers with repositories, git as it runs in a
// container, scripts in its place, directories that another uid may use, and commits of arbitrary
// trees.
package testgit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// Trees makes objects in a store from their contents.
type Trees struct {
	T     T
	Store string
}

// T has the methods of *testing.T and *rapid.T that Trees needs.
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

// Blob writes a file's content and returns its object ID.
func (w Trees) Blob(content string) string {
	return w.Git(content, nil, "hash-object", "-w", "--stdin")
}

// Commit makes a commit of files and returns its ID. Each value of files is "mode ID".
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

// Entry returns an entry for Tree: "mode name", NUL and the binary ID.
func (w Trees) Entry(mode, name, id string) string {
	w.T.Helper()
	b, err := hex.DecodeString(id)
	if err != nil {
		w.T.Fatalf("%v", err)
	}
	return mode + " " + name + "\x00" + string(b)
}

// Tree writes a tree, which git itself might refuse to make, and returns its ID.
func (w Trees) Tree(entries ...string) string {
	w.T.Helper()
	return w.Git(strings.Join(entries, ""), nil, "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
}

// CommitTree makes a commit of a Tree and returns its ID.
func (w Trees) CommitTree(entries ...string) string {
	w.T.Helper()
	return w.Git("", nil, "commit-tree", "-m", "m", w.Tree(entries...))
}

// Scratch is testdir.New in the root filesystem at root. An empty root is this process's.
func Scratch(t testing.TB, root string) string {
	t.Helper()
	return testdir.NewIn(t, filepath.Join(root, "/var/tmp"), "git")
}

// Owned creates an empty directory in root that belongs to uid.
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

// Store makes an empty bare repository in root that belongs to uid, and returns its directory.
func Store(t testing.TB, root string, uid int, format string) string {
	t.Helper()
	dir := Owned(t, root, uid)
	Git(t, dir, "init", "--quiet", "--bare", "--template=", "--initial-branch=none", "--object-format="+format, ".")
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chown(path, uid, uid))
	}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Script writes a shell script as a program, alone in a directory, and returns its path.
func Script(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(Scratch(t, ""), "program")
	// A child that is forked now would inherit the open file, and executing the script would fail
	// with ETXTBSY.
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
