package tree

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/helmdeck/repos/internal/git"
)

// gitConfig is the configuration that `git clone` writes, and two settings of
// ours: one commit in a repository of many packs would otherwise rewrite them
// all into the workspace.
func gitConfig(s Spec, format, branch string, onBranch bool) []byte {
	var b bytes.Buffer
	var extensions string
	if format == git.SHA256 {
		extensions += "\tobjectFormat = sha256\n"
	}
	if s.History.NoBlobs {
		extensions += "\tpartialClone = origin\n"
	}
	version := 0
	if extensions != "" {
		version = 1
	}
	if s.Files.Sparse != "" {
		// Every git looks at this one, whatever the version.
		extensions += "\tworktreeConfig = true\n"
	}
	if extensions != "" {
		extensions = "[extensions]\n" + extensions
	}
	fmt.Fprintf(&b, "[core]\n\trepositoryformatversion = %d\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n", version)
	b.WriteString(extensions)
	b.WriteString("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n")
	fmt.Fprintf(&b, "[remote \"origin\"]\n\turl = %s\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n", quoteConfig(s.URL.String()))
	if s.History.NoBlobs {
		b.WriteString("\tpromisor = true\n\tpartialclonefilter = blob:none\n")
	}
	if onBranch {
		fmt.Fprintf(&b, "[branch %s]\n\tremote = origin\n\tmerge = %s\n", quoteConfig(branch), quoteConfig("refs/heads/"+branch))
	}
	return b.Bytes()
}

// quoteConfig quotes a value or the name of a subsection (git-config, Syntax).
// Neither can hold a newline: URLs and refs are checked for it.
func quoteConfig(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
