package prebuild

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmdeck/repos/api"
)

// The defaults of a Job.
const (
	DefaultTarget  = "/w"
	DefaultTimeout = time.Hour
)

// Job is what to prebuild, and how.
type Job struct {
	Repo  string // a URL
	Image string // a name or an ID
	Setup string // a command of sh that makes the warm directories
	// Update is a command of sh that brings the warm directories of an earlier commit to the present one. If it is
	// empty, those of an earlier commit with the same warm_files stay as they are.
	Update string
	// Options are those of the volumes that will find the state, without repo.
	Options map[string]string
	// Devcontainer is set if Image, Setup and Update are those of the repository's devcontainer.json.
	Devcontainer bool
	// Env has NAME=VALUE, and NAME for a variable of this process, whose value is no part of the label.
	Env     []string
	Network string        // as in docker run; empty: the engine's default
	Target  string        // where the volume is mounted, and the commands begin
	Timeout time.Duration // for one run of a command, and likewise for one answer of the plugin and one pull of the image
}

// refused has the options that a prebuild can't have, with the reason.
var refused = map[string]string{
	"repo":    "the repository is an argument of its own",
	"url":     "the repository is an argument of its own",
	"publish": "a prebuild publishes what succeeded: it has publish=marked",
	"mode":    "each run has a workspace of its own: it has mode=private",
	"from":    "a prebuild begins with the checkout, as every container that finds its state",
}

// Check returns an error that names what is wrong with a job. No error has a value of a variable, or a URL with a
// password, because these may be secret.
func (j Job) Check() error {
	for _, name := range slices.Sorted(maps.Keys(j.Options)) {
		if why := refused[name]; why != "" {
			return fmt.Errorf("the option %s is not for a prebuild: %s", name, why)
		}
	}
	switch {
	case j.Repo == "":
		return errors.New("the repository is missing: give its URL")
	case hasPassword(j.Repo):
		return errors.New("the URL of the repository has a password, which would be in logs and metrics: give it without, and store a credential")
	case j.Devcontainer && j.Image+j.Setup+j.Update != "":
		return errors.New("image, setup and update can't be with devcontainer: they are those of the repository's devcontainer.json")
	case j.Devcontainer:
	case j.Image == "":
		return errors.New("the image is missing: name the one in which the commands run")
	case strings.TrimSpace(j.Setup) == "":
		return errors.New("the setup command is missing: give the one that makes the warm directories, such as npm ci")
	}
	switch {
	case j.Options["warm"] == "":
		return errors.New("the option warm is missing: name the directories that the setup command makes, such as warm=node_modules")
	case !path.IsAbs(j.Target) || path.Clean(j.Target) != j.Target || j.Target == "/":
		return fmt.Errorf("the target %q is not possible: allowed is an absolute path such as /w", j.Target)
	case j.Timeout <= 0:
		return fmt.Errorf("the timeout %v is not possible: allowed are durations above 0s, such as 30m", j.Timeout)
	}
	for i, e := range j.Env {
		if name, _, _ := strings.Cut(e, "="); name == "" {
			return fmt.Errorf("variable %d has no name: allowed are NAME and NAME=VALUE", i+1)
		}
	}
	return nil
}

// hasPassword reports whether a URL has a password, or may have one because nobody can say where its host is.
func hasPassword(repo string) bool {
	u, err := url.Parse(repo)
	if err != nil {
		return strings.Contains(repo, "://") && strings.Contains(repo, "@")
	}
	_, has := u.User.Password()
	return has
}

// variables returns the environment of the commands.
func (j Job) variables() (list []string, err error) {
	for _, e := range j.Env {
		if !strings.Contains(e, "=") {
			value, ok := os.LookupEnv(e)
			if !ok {
				return nil, fmt.Errorf("the variable %q is not set: set it, or give it as NAME=VALUE", e)
			}
			e += "=" + value
		}
		list = append(list, e)
	}
	return list, nil
}

// seen has the options that decide which files the commands find, and that are no part of a state's head.
var seen = []string{"sparse", "submodules", "submodule_errors", "lfs"}

// Label returns the label of the states that the job makes with the image of an ID. Each part has its length before
// it, so that no two jobs have the same text to hash.
func (j Job) Label(image string) string {
	parts := []string{image, j.Setup, j.Update, j.Target}
	for _, name := range seen {
		value := j.Options[name]
		if name == "sparse" { // the order of its directories means nothing
			dirs := strings.Split(value, ",")
			for i := range dirs {
				dirs[i] = strings.TrimSuffix(dirs[i], "/")
			}
			slices.Sort(dirs)
			value = strings.Join(slices.Compact(dirs), ",")
		}
		parts = append(parts, value)
	}
	h := sha256.New()
	for _, part := range append(append(parts, strconv.Itoa(len(j.Env))), j.Env...) {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return "prebuild " + hex.EncodeToString(h.Sum(nil))
}

// user returns who runs the commands: the owner of the volume's files, if the options name one, or else the image's
// user.
func (j Job) user() string {
	uid, gid := j.Options["uid"], j.Options["gid"]
	if uid == "" && gid == "" {
		return ""
	}
	return cmp.Or(uid, "0") + ":" + cmp.Or(gid, "0")
}

// warm returns the question for the states of the job.
func (j Job) warm() api.Warm {
	w := api.Warm{Repo: j.Repo, Ref: j.Options["ref"], Subject: j.Options["subject"], Options: maps.Clone(j.Options)}
	delete(w.Options, "ref")
	delete(w.Options, "subject")
	return w
}

// volume returns the options of the volume in which a command runs.
func (j Job) volume() map[string]string {
	o := maps.Clone(j.Options)
	o["repo"], o["publish"], o["mode"] = j.Repo, "marked", "private"
	return o
}
