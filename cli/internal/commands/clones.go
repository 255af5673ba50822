package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/show"
)

// lookupClone returns the key of the clone that a word means: that key, the beginning of one or of its second part,
// or the URL of a repository that has one clone.
func lookupClone(ctx context.Context, c *api.Client, word string) (string, error) {
	if isKey(word) {
		return word, nil
	}
	url := strings.Contains(word, "://")
	var filter api.Filter
	if url {
		filter.Repo = word
	}
	clones, err := c.Clones(ctx, filter)
	if err != nil {
		return "", err
	}
	var found []string
	for _, clone := range clones {
		_, hash, _ := strings.Cut(clone.Clone, "/")
		if url || strings.HasPrefix(hash, word) || strings.Contains(word, "/") && strings.HasPrefix(clone.Clone, word) {
			found = append(found, clone.Clone)
		}
	}
	slices.Sort(found)
	switch len(found) {
	case 0:
		return "", unknownError{fmt.Errorf("there is no clone %s: docker repos ls lists them, as SUBJECT/HASH", quote(word))}
	case 1:
		return found[0], nil
	}
	var b strings.Builder
	for _, key := range found[:min(len(found), shownWorkspaces)] {
		b.WriteString("\n  " + show.Text(key))
	}
	return "", fmt.Errorf("%s means %d clones: name one of them by its key%s", quote(word), len(found), b.String())
}

// hashDigits is the length of the second part of the key of a clone.
const hashDigits = 16

// isKey reports whether a text has the form of the key of a clone.
func isKey(text string) bool {
	subject, hash, ok := strings.Cut(text, "/")
	return ok && subject != "" && len(hash) == hashDigits && strings.Trim(hash, "0123456789abcdef") == ""
}
