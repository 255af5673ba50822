package git

import "github.com/helmdeck/repos/internal/git/gitref"

// SizeFactor multiplies the limits on the size of a repository: the setting SIZE_FACTOR. Zero stands for 1.
type SizeFactor float64

// Of returns a limit times the factor.
func (f SizeFactor) Of(limit int) int {
	if f == 0 {
		return limit
	}
	return int(float64(limit) * float64(f))
}

// SizeSetting is what errors say about such a limit.
const SizeSetting = "(setting SIZE_FACTOR)"

// SizeFactor returns Config.SizeFactor.
func (g *Git) SizeFactor() SizeFactor { return g.config.SizeFactor }

// maxAnswer bounds the size of an answer to a question for refs, of which little is kept.
func (g *Git) maxAnswer() int { return g.config.SizeFactor.Of(gitref.MaxAnswer) }

// largeRefs is the remedy if a remote has too many refs.
const largeRefs = "raise the setting, or delete branches and tags at the remote"
