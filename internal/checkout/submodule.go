package checkout

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"

	"github.com/helmdeck/repos/internal/git"
)

// modulesFile lists the submodules of a commit.
const modulesFile = ".gitmodules"

// Gitlink is a submodule's path and commit in a checkout.
type Gitlink struct {
	Path   git.Text
	Commit string
}

// gitlinks returns the submodules whose directories the checkout made, and the object ID
// of its .gitmodules, empty if it has none. It starts no process.
func (ix *index) gitlinks() (links []Gitlink, modules string) {
	for _, e := range ix.Entries {
		switch {
		case e.IsSubmodule():
			links = append(links, Gitlink{Path: git.Text(e.Name()), Commit: hex.EncodeToString(e.ID())})
		case e.Name() == modulesFile && e.IsBlob():
			modules = hex.EncodeToString(e.ID())
		}
	}
	return links, modules
}

// Submodule is a section of .gitmodules, unchecked.
type Submodule struct {
	Name, Path, URL git.Text
	// Update is the strategy of `git submodule update`, such as "none".
	Update git.Text
}

// submodules reads a .gitmodules from the store by its object ID, in the order of the
// file. As in git, the first of repeated values counts.
func (g runner) submodules(ctx context.Context, store, id string) ([]Submodule, error) {
	values, err := g.blobConfig(ctx, store, modulesFile, id)
	if err != nil {
		return nil, err
	}
	var list []Submodule
	index := make(map[string]int)
	for _, v := range values {
		rest, ok := strings.CutPrefix(v.key, "submodule.")
		dot := strings.LastIndexByte(rest, '.')
		if !ok || dot < 0 {
			continue
		}
		name := rest[:dot]
		i, ok := index[name]
		if !ok {
			i = len(list)
			index[name] = i
			list = append(list, Submodule{Name: git.Text(name)})
		}
		for variable, field := range map[string]*git.Text{"path": &list[i].Path, "url": &list[i].URL, "update": &list[i].Update} {
			if rest[dot+1:] == variable && *field == "" {
				*field = git.Text(v.value)
			}
		}
	}
	return list, nil
}

// configValue is a variable of a configuration; section and variable name are in lower
// case.
type configValue struct{ key, value string }

// blobConfig reads a configuration file from the store, without includes.
func (g runner) blobConfig(ctx context.Context, store, name, id string) ([]configValue, error) {
	out, err := g.Run(ctx, git.Command{
		Op:   "read " + name,
		Args: []string{"--git-dir=.", "config", "--blob=" + id, "--list", "-z", "--no-includes"},
		Dir:  store, Read: []string{store},
	})
	if err != nil {
		return nil, err
	}
	var values []configValue
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "\n")
		if key != "" {
			values = append(values, configValue{key, value})
		}
	}
	return values, nil
}
