package cache

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

const (
	// originsName is a file in each directory of a Maven repository. It has lines such as "lib-1.jar>central=" for what
	// came from the remote repository central, and "lib-1.jar>=" for what install has put there.
	originsName = "_remote.repositories"
	maxOrigins  = 64 << 10 // bytes
)

// origins are the lines of a directory's file: whether files came from a repository, by name.
type origins struct {
	dir    string // of the directory, or "" before the first
	lines  []string
	remote map[string]bool // false if install has put it there, too
}

// fromRemote returns the class of a file of a Maven repository: never, unless it came from a remote repository.
func (c *collector) fromRemote(e disk.Entry, rel string) (class, error) {
	dir, name := path.Split(rel)
	if c.origins.dir != dir {
		lines, err := readLines(e.Dir, originsName)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return never, err
		}
		c.origins = newOrigins(dir, lines)
	}
	if name == originsName {
		return replace, nil
	}
	for _, sum := range []string{".sha1", ".md5", ".sha256", ".sha512"} {
		name = strings.TrimSuffix(name, sum)
	}
	switch {
	case !c.origins.remote[name]:
		return never, nil
	case strings.HasSuffix(dir, "-SNAPSHOT/"):
		return replace, nil
	}
	return keep, nil
}

// newOrigins reads the lines of a directory.
func newOrigins(dir string, lines []string) origins {
	o := origins{dir: dir, remote: make(map[string]bool)}
	for _, line := range lines {
		name, from, ok := strings.Cut(strings.TrimSuffix(line, "="), ">")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		before, known := o.remote[name]
		o.remote[name] = from != "" && (before || !known)
		o.lines = append(o.lines, line)
	}
	o.lines = slices.DeleteFunc(o.lines, func(line string) bool {
		name, _, _ := strings.Cut(line, ">")
		return !o.remote[name]
	})
	return o
}

// mergeOrigins writes the lines of what came from a remote repository, with those that are published, because Maven takes a
// file without a line for one that it must ask for again.
func (c *collector) mergeOrigins(rel string) error {
	lines := slices.Clone(c.origins.lines)
	if len(lines) == 0 {
		return nil
	}
	in, _, err := c.pub.find(rel)
	if err == nil {
		old, err := readLines(int(in.Fd()), originsName)
		if err != nil {
			return err
		}
		n := len(old)
		lines = newOrigins("", append(old, lines...)).lines
		slices.Sort(lines)
		if lines = slices.Compact(lines); len(lines) <= n {
			return nil // nothing is new
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := strings.Join(lines, "\n") + "\n"
	if len(text) > maxOrigins {
		return errLarge
	}
	return c.put(rel, func(to int) error {
		fd, err := unix.Openat(to, originsName, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o644)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), originsName)
		_, err = f.WriteString(text)
		if err = errors.Join(err, f.Close()); err == nil {
			err = setAttributes(to, originsName, c.UID, c.GID, unix.S_IFREG, unix.NsecToTimespec(c.Now.UnixNano()))
		}
		c.err = errors.Join(c.err, err)
		return err
	})
}

// readLines reads a small file.
func readLines(dir int, rel string) ([]string, error) {
	f, err := openRegular(dir, rel)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Size > maxOrigins {
		return nil, errKind
	}
	data, err := io.ReadAll(io.LimitReader(f, maxOrigins))
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		lines = append(lines, strings.TrimRight(line, "\r\n"))
	}
	return lines, nil
}
