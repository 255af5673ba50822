package hostnames

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/overlay"
)

// followed lists the files in /etc that name resolution reads and the host may replace.
var followed = []string{"resolv.conf", "hosts"}

// interval is how often the host's files are looked at. Go's resolver looks at its own files every
// five seconds at most.
const interval = time.Second

// Places are directories.
type Places struct {
	Host   string // has the host's directories, such as etc and run; only root may enter it
	Etc    string // where the resolver expects its files
	Copies string // of the copies; New makes it
}

// State is the state of a file that is followed.
type State struct {
	Name string // such as /etc/hosts
	// Err is why the host's file can't be followed; nil if the resolver reads what the host has.
	Err error
	// Since is when the host's file was last read; zero if the resolver reads the file that the
	// engine gave the plugin at its start.
	Since time.Time
	// Replaced is set if that file has been removed from the host's directory since.
	Replaced bool
}

// Follower keeps the resolver's files those of the host. States may be called at any time, and never
// waits for the host's filesystem.
type Follower struct {
	at     Places
	log    *logrus.Entry
	files  []*file // for New and Run, which come one after the other
	mu     sync.Mutex
	states []State // of the last look
}

// New returns a follower that has looked at the host's files once. It changes nothing, and follows
// nothing, unless the engine has mounted the host's /etc and a file in at.Etc. The zero Places are
// for a process that uses the host's files themselves.
func New(ctx context.Context, at Places, log *logrus.Logger) *Follower {
	f := &Follower{at: at, log: log.WithContext(ctx)}
	if at == (Places{}) || !isMount(filepath.Join(at.Host, "etc")) {
		return f
	}
	// Children run without rights, and have no business in the host's directories.
	if err := os.Chmod(at.Host, 0o700); err != nil {
		f.log.WithError(err).Warn("hostnames: the host's files are not followed")
		return f
	}
	// A link /var/run of older systems leads to /run.
	if err := varRun(at.Host); err != nil {
		f.log.WithError(err).Warn("hostnames: links to files in /var/run are not followed")
	}
	for _, name := range followed {
		if isMount(filepath.Join(at.Etc, name)) {
			f.files = append(f.files, &file{name: name})
		}
	}
	f.look()
	return f
}

// varRun makes /var/run in host, a link as the host has it.
func varRun(host string) error {
	dir := filepath.Join(host, "var")
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Symlink("/run", filepath.Join(dir, "run")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Run looks at the host's files until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	if len(f.files) == 0 {
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.look()
		}
	}
}

// States returns the states of the files that are followed; none if the process uses the host's own.
func (f *Follower) States() []State {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.states)
}

// look looks at all files, and logs what has changed.
func (f *Follower) look() {
	var states []State
	for _, file := range f.files {
		before := file.err
		changed, err := f.update(file)
		file.err = err
		log := f.log.WithField("file", "/etc/"+file.name)
		switch {
		case err != nil && (before == nil || before.Error() != err.Error()):
			log.WithError(err).Warn("hostnames: the host's file can't be followed, and the plugin uses the one that it has")
		case err == nil && before != nil:
			log.Info("hostnames: the host's file is followed again")
		case changed:
			log.Info("hostnames: the host has changed the file, and the plugin uses the new one")
		}
		states = append(states, State{Name: "/etc/" + file.name, Err: err, Since: file.read, Replaced: !file.attached && f.replaced(file.name)})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states = states
}

// replaced reports whether the file that the engine has mounted has no name in the host any more.
func (f *Follower) replaced(name string) bool {
	var stat unix.Stat_t
	err := unix.Stat(filepath.Join(f.at.Etc, name), &stat)
	return err == nil && stat.Nlink == 0
}

// update makes the copy of a file if the host's differs, and makes the resolver use it. It reports
// whether an earlier copy has changed.
func (f *Follower) update(file *file) (changed bool, err error) {
	data, version, err := readHost(f.at.Host, "etc/"+file.name, file.version)
	if err != nil {
		return false, err
	}
	if sum := sha256.Sum256(data); data != nil && (!file.copied || sum != file.content) {
		if err := durable.MkdirVolatile(f.at.Copies, 0o755); err != nil {
			return false, err
		}
		if err := durable.WriteVolatile(filepath.Join(f.at.Copies, file.name), data, 0o644); err != nil {
			return false, err
		}
		changed = file.copied
		file.content, file.copied = sum, true
	}
	if !file.attached {
		if err := f.attach(file.name); err != nil {
			return false, err
		}
		file.attached = true
	}
	file.version, file.read = version, time.Now()
	return changed, nil
}

// attach replaces the engine's mount of a file by a link to its copy.
func (f *Follower) attach(name string) error {
	path := filepath.Join(f.at.Etc, name)
	link := filepath.Join(f.at.Etc, durable.TempPrefix+name)
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Join(f.at.Copies, name), link); err != nil {
		return err
	}
	if err := overlay.Uncover(path); err != nil {
		return err
	}
	return durable.RenameVolatile(link, path)
}

// isMount reports whether something is mounted at path, a directory or a file.
func isMount(path string) bool {
	var s unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &s)
	return err == nil && s.Attributes&s.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// Servers returns the name servers that a file such as /etc/resolv.conf names.
func Servers(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(data)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "nameserver" {
			list = append(list, words[1])
		}
	}
	return list, nil
}

// String shows a state for the log and for operators.
func (s State) String() string {
	if s.Err == nil {
		return fmt.Sprintf("%s is that of the host", s.Name)
	}
	if s.Since.IsZero() {
		return fmt.Sprintf("%s is that of the plugin's start, because the host's can't be followed: %v", s.Name, s.Err)
	}
	return fmt.Sprintf("%s is that of %s, because the host's can't be followed: %v", s.Name, s.Since.UTC().Format(time.RFC3339), s.Err)
}
