package remote

import "github.com/helmdeck/repos/internal/meta"

// Answer is the answer of the remote about a ref.
type Answer struct {
	head   string // the remote's default branch, full name
	format string // sha1 or sha256
	res    meta.Resolution
	// empty is set if the remote's HEAD has no commit, and there are no branches. Then res has
	// no commit, and head may be unknown: see emptyRemote.
	empty bool
	// later is set for a commit, about which ls-refs says nothing: the store or a fetch
	// must have it.
	later  bool
	number int64 // of the question: see newestStored
	// sums has those prefixes, of all branches and of all tags, that the question was about,
	// and listed their refs, unless they are too many. tags are the tags of res.Commit, by
	// name, as far as the answer has them. snapshot is that of the store at the time of the
	// question.
	sums     sums
	listed   listing
	tags     map[string]string
	snapshot string
}
