package upper

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/handout"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
)

// about is .git/helmdeck.json, which describes a workspace to programs in the container.
type about struct {
	Volume  string `json:"volume"`
	Subject string `json:"subject"`
	Repo    string `json:"repo"`
	Ref     string `json:"ref"`             // full name; empty when HEAD is detached at a commit
	Commit  string `json:"commit"`          // what is checked out
	Reused  bool   `json:"reused"`          // the clone served a mount before
	Stale   bool   `json:"stale,omitempty"` // the remote did not answer: this is its last known state
	// Shallow is set if the full history was not fetched yet (cold=shallow).
	Shallow bool      `json:"shallow,omitempty"`
	Pulled  string    `json:"pulled_sha"` // where the ref was when the remote was last asked
	Time    time.Time `json:"time"`       // of the mount
	// NotUsed says, by path, why the cache, the credential helper or a warm directory is missing.
	NotUsed map[string]string `json:"not_used,omitempty"`
}

const aboutName = "helmdeck.json"

// noWarmLayers says why a workspace has no warm layers at a warm path.
const noWarmLayers = "none was carried over yet: it is found by ref or default branch, uid, gid and warm_key"

// NotUsed says, by path, why a workspace does not have its cache, the credential helper or a warm directory. It
// is nil if the workspace has all that its volume asks for. Containers read it, so it
// names nothing of the host.
func NotUsed(rec meta.Workspace) map[string]string {
	why := make(map[string]string)
	switch {
	case !HasCache(rec):
		why[tree.CacheMount] = "the volume has cache=off"
	case rec.NoCache != "":
		why[tree.CacheMount] = rec.NoCache
	}
	if rec.NoHelper != "" {
		why[handout.Mount] = rec.NoHelper
	}
	for _, p := range rec.Warm {
		switch {
		case p.LeftOut != "":
			why[p.Path] = p.LeftOut
		case len(p.Chain) == 0:
			why[p.Path] = noWarmLayers
		}
	}
	if len(why) == 0 {
		return nil
	}
	return why
}

// aboutText returns the content of .git/helmdeck.json. at is the time of the mount.
func aboutText(rec meta.Workspace, at time.Time) ([]byte, error) {
	data, err := json.MarshalIndent(about{
		Volume: rec.Volume, Subject: rec.Options["subject"], Repo: rec.Options["repo"],
		Ref: rec.Ref, Commit: rec.Commit, Reused: rec.Reused, Stale: rec.Stale, Shallow: rec.Shallow, Pulled: rec.Pulled, Time: at.UTC(),
		NotUsed: NotUsed(rec),
	}, "", "  ")
	return append(data, '\n'), err
}

// Describe writes .git/helmdeck.json again below root, which is an upper that is not
// mounted, or a mounted workspace. at is the time of the mount. Containers may have
// written there: if .git is no longer a directory, or the file has become one, nothing is
// written, and written is false.
func Describe(root string, rec meta.Workspace, at time.Time) (written bool, err error) {
	data, err := aboutText(rec, at)
	if err != nil {
		return false, err
	}
	top, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(top)
	dir, err := disk.OpenAt(top, ".git", unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return false, nil
	case err != nil:
		return false, err
	}
	defer unix.Close(dir)
	switch err := unix.Unlinkat(dir, aboutName, 0); {
	case errors.Is(err, unix.EISDIR):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	fd, err := unix.Openat(dir, aboutName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return false, err
	}
	f := os.NewFile(uintptr(fd), aboutName)
	_, err = f.Write(data)
	return true, errors.Join(err, f.Chown(int(rec.UID), int(rec.GID)), f.Close())
}
