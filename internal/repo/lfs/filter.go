package lfs

import (
	_ "embed"
	"path/filepath"
)

// FilterFile is the name of Filter in the directory of a repository.
const FilterFile = "helmdeck-lfs"

// Filter is a script for containers: git's filter "lfs", which works with and without git-lfs. The
// plugin itself never runs it.
//
//go:embed filter.sh
var Filter []byte

// FilterConfig returns the section of a repository's configuration that makes git use Filter. If
// skip, git-lfs downloads nothing when git checks files out.
//
// git ignores clean and smudge where the configuration of the image or of a user names a process,
// which is what `git lfs install` does.
func FilterConfig(skip bool) string {
	smudge := "smudge"
	if skip {
		smudge += " --skip"
	}
	run := func(args string) string {
		return `"sh \"$(git rev-parse --git-common-dir)/` + FilterFile + `\" ` + args + ` -- %f"`
	}
	// Required: if the script fails, git must not take the content for that of the file.
	return "[filter \"lfs\"]\n\tclean = " + run("clean") + "\n\tsmudge = " + run(smudge) + "\n\trequired = true\n"
}

// InRepository returns where git-lfs looks for an object, below the directory of a repository.
func InRepository(oid string) string {
	return filepath.Join("lfs/objects", oid[:2], oid[2:4], oid)
}
