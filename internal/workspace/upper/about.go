package upper

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// about is .git/helmdeck.json, which describes a workspace to programs in the container.
type about struct {
	Volume    string `json:"volume"`
	Workspace string `json:"workspace"` // the ID, for an operator's commands
	Subject   string `json:"subject"`
	Repo      string `json:"repo"`
	Ref       string `json:"ref"`             // full name; empty when HEAD is detached at a commit
	Commit    string `json:"commit"`          // what is checked out
	Reused    bool   `json:"reused"`          // the clone served a mount before
	Stale     bool   `json:"stale,omitempty"` // the remote did not answer: this is its last known state
	// Shallow is set if the full history was not fetched yet (cold=shallow).
	Shallow bool      `json:"shallow,omitempty"`
	Pulled  string    `json:"pulled_sha"` // where the ref was when the remote was last asked
	Time    time.Time `json:"time"`       // of the mount
	// NotUsed says, by path, why the cache, the credential helper, a submodule or a warm directory is missing.
	NotUsed map[string]string `json:"not_used,omitempty"`
	// Unlocked are the locks of git that were removed, because the workspace begins with what another one had when the
	// process that held them was not done.
	Unlocked []string `json:"removed_locks,omitempty"`
}

const aboutName = "helmdeck.json"

// noWarmLayers says why a workspace has no warm layers at a warm path.
const noWarmLayers = "none was carried over yet: it is found by ref or default branch, uid, gid and warm_key, and with warm_exact=true by the content of warm_files"

// noSubmodule is no more than that, because the reason may name what is no business of a container.
const noSubmodule = "the submodule could not be had: the warnings of docker volume inspect say why"

// NotUsed says, by path, why a workspace does not have its cache, the credential helper, a submodule or a warm
// directory. It is nil if the workspace has all that its volume asks for. Containers read it, so it
// names nothing of the host.
func NotUsed(rec meta.Workspace) map[string]string {
	why := make(map[string]string)
	if !hasCache(rec) {
		why[cache.Mount] = "the volume has cache=off"
	}
	if rec.NoHelper != "" {
		why[handout.Mount] = rec.NoHelper
	}
	for _, m := range rec.Missing {
		why[m.Path] = noSubmodule
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
func aboutText(rec meta.Workspace, at time.Time, unlocked []string) ([]byte, error) {
	data, err := json.MarshalIndent(about{
		Volume: rec.Volume, Workspace: rec.ID, Subject: rec.Options["subject"], Repo: rec.Options["repo"],
		Ref: rec.Ref, Commit: rec.Commit, Reused: rec.Reused, Stale: rec.Stale, Shallow: rec.Shallow, Pulled: rec.Pulled, Time: at.UTC(),
		NotUsed: NotUsed(rec), Unlocked: unlocked,
	}, "", "  ")
	return append(data, '\n'), err
}

// Describe writes .git/helmdeck.json again in a mounted workspace that no container has. at is the time of the mount,
// and unlocked is the result of Unlock. Containers may have written there: if .git is no longer a directory, or the
// file has become one, nothing is written.
func Describe(root string, rec meta.Workspace, at time.Time, unlocked []string) error {
	data, err := aboutText(rec, at, unlocked)
	if err != nil {
		return err
	}
	dir, err := openGit(root)
	if dir < 0 {
		return err
	}
	defer unix.Close(dir)
	switch err := unix.Unlinkat(dir, aboutName, 0); {
	case errors.Is(err, unix.EISDIR):
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	fd, err := unix.Openat(dir, aboutName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), aboutName)
	_, err = f.Write(data)
	return errors.Join(err, f.Chown(int(rec.UID), int(rec.GID)), f.Close())
}

// openGit opens the directory .git below root, which is an upper or a mounted workspace. The result is -1 if there is
// none: containers may have written there.
func openGit(root string) (dir int, err error) {
	top, err := upfile.OpenDir(root)
	if err != nil {
		return -1, err
	}
	defer top.Close()
	dir, err = disk.OpenAt(int(top.Fd()), ".git", unix.O_RDONLY|unix.O_DIRECTORY)
	if isNoDirectory(err) {
		err = nil
	}
	return dir, err
}
