package volume

import (
	"slices"
	"testing"

	"github.com/helmdeck/repos/tests/testpage"
)

// meanings has what the options do, for docs/reference/options.md. Names, allowed values and defaults come from the
// options themselves.
var meanings = map[string]string{
	optRepo: "the repository. No password or token belongs in the URL; a user name is sent only if the server asks: [private repositories](../how-to/private-repositories.md). " +
		"Other schemes than https and http work only if the setting `ALLOW_SCHEMES` names them",
	optRef:     "what is checked out: a branch, or a detached HEAD for a tag or a commit. A commit may be abbreviated. `HEAD` is the remote's default branch",
	optSubject: "the owner of the clone. Clones and caches are never shared between subjects",
	optMode: "`private`: a workspace for every mount · `shared`: one workspace for all mounts of the volume, reset when the last one ends · " +
		"`keep`: one workspace that stays. See [what survives what](../lifecycle.md)",
	optCache: "`shared`: the clone's [caches](../how-to/caches.md) are at `.git/hdcache`, and what is new in them is published for later containers · `off`: no caches",
	optPublish: "when later containers get what a container leaves in its caches and its warm directories. `always`: when it has ended · `marked`: also, but " +
		"[only if it made the file](../how-to/caches.md#publish-only-what-succeeded) `.git/helmdeck-publish` · `never`: for jobs that you do not trust. They find " +
		"what others have left, and no other container ever uses what they leave behind",
	optLink: "`true`: `.hdcache` at the top of the work tree is a link to `.git/hdcache`, which " +
		"[many programs take for a file of yours](../caches.md#the-link-hdcache) · `false`: it is not there. The setting `CACHE_LINK` gives another default",
	optWarm:      "untracked directories that the next workspace finds as the last one left them: [warm directories](../how-to/warm-directories.md)",
	optWarmKey:   "separates warm directories which must not mix, such as an image's name or the hash of a lock file",
	optWarmFiles: "files of the commit, such as lock files: each content of theirs has [a state of its own](../how-to/warm-directories.md#a-state-for-each-lock-file) of the warm directories",
	optWarmExact: "`false`: a container whose `warm_files` have no state yet begins with the newest one of others · `true`: it begins with none",
	optUID:       "the owner of the files; git in the container should run with the same ID. With `--userns-remap` give [other numbers](../operations/user-namespaces.md)",
	optGID:       "the group of the files; it does not follow `uid`",
	optRefresh: "when a mount asks the remote. `auto`: always, but a run whose volume has no name [asks once](../lifecycle.md#which-pushes-a-container-has), when the volume is created · " +
		"`always` · a duration: if the last question is older · `never`: only the first time",
	optStaleIfError: "if the remote does not answer, the last known commit is used, provided that the remote agreed to it within this time. Then " +
		"`.git/helmdeck.json` and `docker volume inspect` say `stale: true`. If the remote answers no, or with `0s`, the mount fails",
	optDepth: "the history of every branch and tag is cut after so many commits, as with `git clone --depth N --no-single-branch`",
	optFilter: "`blob:none`: only the files that are checked out are fetched; git in the container fetches others when it needs them, and fails where it " +
		"can't reach the remote",
	optCold: "what a mount gets that would have to wait for the first clone. `full`: it waits · `shallow`: the newest commits alone, " +
		"[while the full history is fetched](../how-to/first-clone.md#get-the-newest-commit-first). Only with `mode=private`, and without `depth` and `filter`",
	optSparse: "only these directories, and the files directly in the directories above them, are checked out, as with `git sparse-checkout set`",
	optSubmodules: "`true`: those of the repository · `recursive`: also theirs. Paths after it, from the top of the repository, say which: [some of the " +
		"submodules](../git.md#some-of-the-submodules). Each is fetched once per subject and URL. Their URLs may not lead into private networks, " +
		"except to the server of the volume's own URL",
	optModuleErrors: "`fail`: a submodule that can't be had fails the mount · `warn`: its directory stays empty, `docker volume inspect` says why, and a later " +
		"mount [tries again](../git.md#submodules-that-are-missing)",
	optLFS:        "`true`: git-lfs files have their content where `.gitattributes` asks for it, fetched once per clone · `false`: pointers stay",
	optCredential: "the name of a stored [credential](../how-to/private-repositories.md): only this one is used. Otherwise the one whose scope fits best is",
	optAuth: "`container`: git in the containers of the volume gets the volume's credential when it asks, for this repository alone: " +
		"[what that means](../how-to/private-repositories.md#let-git-in-the-container-use-the-credential) · `none`: it does not",
	optFrom: "the ID of a [checkpoint](../how-to/checkpoints.md) of the same subject and repository: each workspace of the volume begins with it",
	optSize: "the most that a workspace of the volume may hold, with its [cache](../how-to/caches.md) and all that it copies up: a write beyond that fails. " +
		"The default and the most are settings: [hard limits](../operations/sizing.md#hard-limits)",
	optInodes: "likewise, of files, directories and links",
}

// TestDocs checks the table of docs/reference/options.md.
func TestDocs(t *testing.T) {
	o, err := Parse(map[string]string{optRepo: "https://git.example.com/app"}, nil, Schemes{})
	if err != nil {
		t.Fatal(err)
	}
	rows := [][]string{{"`repo` (or `url`)", meanings[optRepo], "an https or http URL", "required"}}
	for _, opt := range options {
		if meanings[opt.name] == "" {
			t.Errorf("meanings lacks %q", opt.name)
		}
		rows = append(rows, []string{testpage.Code(opt.name), meanings[opt.name], opt.allowed, testpage.Code(opt.get(&o))})
	}
	if len(meanings) != len(rows) || slices.ContainsFunc(options, func(o option) bool { return o.allowed == "" }) {
		t.Errorf("%d meanings of %d options, each with allowed values", len(meanings), len(rows))
	}
	testpage.Check(t, "../../docs/reference/options.md", "options", testpage.Table([]string{"option", "meaning", "allowed", "default"}, rows))
}
