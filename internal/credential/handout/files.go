package handout

import (
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// Mount is where the directory is bound, below the top of a workspace: in .git, where no file of a
// repository can be.
const Mount = ".git/helmdeck"

const (
	scriptName = "credential"
	socketName = "socket"
)

// script is the credential helper. It is read by sh, so it needs no execute permission, and works
// where the data directory is mounted noexec.
//
//go:embed credential.sh
var script []byte

// Wanted reports whether a volume with options, as volume.Options.Map returns them, hands out its
// credential.
func Wanted(options map[string]string) bool { return options["auth"] == string(volume.AuthContainer) }

// Due reports whether the credential helper of a workspace is to be served: while it has leases.
func Due(rec meta.Workspace) bool {
	return rec.Phase == meta.Mounted && len(rec.Leases) > 0 && Wanted(rec.Options) && rec.NoHelper == ""
}

// Section returns the section of .git/config for a repository's URL, which has no user, so that it is for every one:
// that of the credential may be another than that of origin. git finds the directory from
// its own, because it does not know where the workspace is mounted in the container. The name of the
// script and its arguments must stay as they are: kept workspaces have this section for ever.
func Section(repo string) []byte {
	if u, err := volume.ParseURL(repo, volume.AllSchemes()); err == nil {
		repo = u.WithoutUser().String()
	}
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(repo)
	return []byte("[credential \"" + quoted + "\"]\n\tuseHttpPath = true\n\thelper = " + `"!` + helper + `"` + "\n")
}

// helper is a shell command, quoted for .git/config. git appends the operation.
const helper = `f() { h=$(git rev-parse --git-common-dir)/` + "helmdeck/" + scriptName + `; ` +
	`if test -e \"$h\"; then sh \"$h\" \"$1\"; ` +
	`elif test \"$1\" = get; then echo 'helmdeck/repos: no credential, because .git/helmdeck is not mounted here' >&2; fi; }; f`

// Make makes the directory of a workspace, without a socket, unless it is there.
func Make(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return writeScript(d)
}

// Clear removes the socket that a process which died has left in a workspace's directory. A missing
// directory is not an error.
func Clear(dir string) error {
	d, err := openDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return remove(d, socketName)
}

// openDir opens the directory of a workspace. Only root can enter the directory above it.
func openDir(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return os.NewFile(uintptr(fd), dir), nil
}

// writeScript writes the script, unless it is there as it should be: another version of the plugin
// may have written it.
func writeScript(d *os.File) error {
	if now, err := readScript(d); err == nil && string(now) == string(script) {
		return nil
	}
	if err := remove(d, scriptName); err != nil {
		return err
	}
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(int(d.Fd()), scriptName, flags, 0o644)
	if err != nil {
		return fmt.Errorf("make %q: %w", filepath.Join(d.Name(), scriptName), err)
	}
	f := os.NewFile(uintptr(fd), scriptName)
	_, err = f.Write(script)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

func readScript(d *os.File) ([]byte, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(d.Fd()), scriptName, flags, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), scriptName)
	defer f.Close()
	text := make([]byte, len(script)+1)
	n, err := f.Read(text)
	return text[:n], err
}

// remove removes a file of a workspace's directory, if it is there. A directory, which a container
// with CAP_SYS_ADMIN made, is only renamed, because it may have a million files: it goes with the
// workspace.
func remove(d *os.File, name string) error {
	err := unix.Unlinkat(int(d.Fd()), name, 0)
	if errors.Is(err, unix.EISDIR) {
		path := filepath.Join(d.Name(), name)
		err = durable.RenameVolatile(path, path+"."+rand.Text())
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %q: %w", filepath.Join(d.Name(), name), err)
	}
	return nil
}

// listen makes the socket, which every uid may connect to. Its path may be longer than that of a
// socket can be, so it is named through the directory's descriptor.
func listen(d *os.File) (*net.UnixListener, error) {
	if err := remove(d, socketName); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), socketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // by then the descriptor's number may be that of another directory
	// chmod(2) follows links, so it names the socket by a descriptor.
	fd, err := unix.Openat(int(d.Fd()), socketName, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		err = os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o666)
		unix.Close(fd)
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
