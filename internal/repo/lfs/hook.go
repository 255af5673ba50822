package lfs

import (
	"bytes"
	_ "embed"
)

// Hooks are the names of git-lfs's hooks.
var Hooks = []string{"pre-push", "post-checkout", "post-commit", "post-merge"}

//go:embed hook.sh
var hook []byte

// replaceable is how much of a hook git-lfs reads to tell whether it may replace it: it may if that is blank.
const replaceable = 1024

// Hook returns the script, for containers, that is each of the Hooks, and works with and without git-lfs. The plugin
// itself never runs it. `git lfs install` and git-lfs's filter put git-lfs's own in its place.
func Hook() []byte { return append(bytes.Repeat([]byte("\n"), replaceable), hook...) }
