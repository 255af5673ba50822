package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/escape"
	"github.com/helmdeck/repos/internal/work"
)

// Limits of what is collected. A container makes as many names and levels as it likes; no tool makes so many.
const (
	maxEntries = 2_000_000
	maxDepth   = 256
	maxPath    = 3000     // bytes: the kernel takes no path of more than 4,095, and layers have some before it
	maxFile    = 64 << 30 // bytes: of holes there may be exabytes
	maxLeft    = 8        // reasons
	maxCopies  = 1 << 16  // of files with several names that are remembered
)

// Job says what Collect collects.
type Job struct {
	// From is the cache in the upper of a workspace, opened with O_PATH.
	From *os.File
	// Shown opens a file below the cache as the container saw it. It may be nil: then files without data of their own
	// are left out.
	Shown func(rel string) (*os.File, error)
	// Published are the caches of published layers, topmost first, as paths that only the plugin can change. One may be
	// missing.
	Published []string
	// To is the cache of the new layer, an empty directory.
	To       string
	UID, GID int
	// Move means that nobody can write to From any more. Its files are renamed, and those with several names are
	// removed. Otherwise files are copied.
	Move bool
	Now  time.Time
	// Until, if it is not zero, leaves out what was changed later.
	Until time.Time
	// Settled, if it is not zero, leaves out the directory of a tool that is not in the table if anything in it was changed
	// later, because a program may still be writing there.
	Settled time.Time
	// Moved, if it is not nil, is called for each file that was renamed into To, with its path.
	Moved func(path string) error
	// Room is how many bytes may be copied.
	Room int64
	// Dry only finds out what would be left out. From may be in use. Move is unset; To and Room are not used.
	Dry bool
}

// Result says what Collect has collected.
type Result struct {
	Size  disk.Size // of To
	Files int       // that are not directories
	Left  []string  // why some things were left out, for the log
	Over  bool      // a limit was reached: what was collected is whole, but not all
	// Stopped is set if ctx was cancelled while files were moved: what was collected is whole, but not all.
	Stopped bool
	// Torn is set if a part of something was moved that is published as a whole or not at all, and the rest is in From.
	Torn bool
}

// Collect puts what is new in a cache, and may be published, into a new layer, as the table says. It trusts nothing in
// From. After an error, what To has must not be published. With Move the end of ctx is no error, because what was moved is
// nowhere else.
func Collect(ctx context.Context, j Job) (Result, error) { return collect(ctx, j, maxEntries) }

func collect(ctx context.Context, j Job, most int) (r Result, err error) {
	walk, stop := context.WithCancel(ctx)
	defer stop()
	c := &collector{Job: j, most: most, stop: stop, copier: upfile.NewCopier(walk, j.Room), copies: make(map[copied]string)}
	if c.pub, err = openBelow(j.Published); err != nil {
		return r, err
	}
	defer c.pub.close()
	nice, pause := niceness, int64(rest)
	if j.Dry {
		nice, pause = disk.Lowest, dryRest
	} else {
		if c.out, err = openTarget(j.To, j.UID, j.GID); err != nil {
			return r, err
		}
		defer c.out.close()
	}
	disk.Nice(nice, func() {
		err = disk.WalkBelow(walk, j.From, ".", c, disk.NewPace(pause))
		switch {
		case ctx.Err() == nil && errors.Is(err, context.Canceled):
			err = nil // c has stopped it
		case errors.Is(err, context.DeadlineExceeded):
			if !c.Dry { // which has less time
				c.over("there was too little time")
			}
			err = nil
		case errors.Is(err, context.Canceled) && c.Move:
			c.r.Stopped = true
			if c.unit != nil {
				c.unit.bad = true
			}
			c.tear()
			err = nil
		}
		if err == nil {
			c.endUnit(0)
		}
		if err = errors.Join(err, c.err); err == nil && c.r.Files > 0 && !c.Dry {
			c.r.Size, err = measure(ctx, j.To)
		}
	})
	return c.r, err
}

// stopTime is how long a layer is measured at most when the plugin stops, which must not take longer than a few seconds,
// whatever a container has made: some hundred thousand files. What takes longer is lost.
const stopTime = time.Second

// measure measures a new layer, also if the time to collect it is over.
func measure(ctx context.Context, dir string) (disk.Size, error) {
	most := stopTime
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		most = time.Minute
	}
	ctx, end := work.Linger(ctx, most)
	defer end()
	return disk.Measure(ctx, dir)
}

// collector is a disk.Visitor.
type collector struct {
	Job
	stop    context.CancelFunc
	pub     *below
	out     *target // nil if Dry
	copier  upfile.Copier
	r       Result
	most    int // entries
	entries int
	names   []string // of the current entry and its parents
	shut    int      // the depth of a directory in which nothing is published, or 0
	unit    *openUnit
	tree    *openTree
	origins origins
	begun   []unix.Timespec   // when the current directory and its parents were last changed before they were read
	copies  map[copied]string // of files with several names: the path of the first copy
	err     error             // the first of To, of which the rest can't be trusted
}

// openUnit is the unit that is being collected.
type openUnit struct {
	rule
	rel   string
	depth int
	files int
	bad   bool // it is left out
}

// openTree is the directory of a tool that is not in the table, while it is collected. Nobody has said which parts of it are
// whole: so nothing of it is published while a program writes there, or if a limit ended the publication in the middle.
type openTree struct {
	rel   string
	files int
	torn  bool // it is left out
}

func (c *collector) Visit(e disk.Entry) (enter bool) {
	if e.Depth == 0 {
		return true
	}
	if c.entries++; c.entries == c.most+1 {
		c.over("there are too many files")
	}
	if c.err != nil || c.entries > c.most {
		c.stop()
		return false
	}
	c.names = append(c.names[:e.Depth-1], e.Name)
	c.endUnit(e.Depth)
	if e.Depth <= c.shut {
		c.shut = 0
	}
	st, err := upfile.Stat(e.Dir, e.Name)
	if err != nil {
		c.spoil(e.Name, err)
		return false
	}
	rel := strings.Join(c.names, "/")
	changed := time.Unix(st.Ctim.Unix())
	if upfile.Kind(&st) == unix.S_IFDIR {
		if enter = c.enter(e, rel); enter {
			c.begun = append(c.begun[:e.Depth-1], st.Ctim)
		}
		c.settled(rel, changed)
		return enter
	}
	if !c.Until.IsZero() && changed.After(c.Until) {
		c.spoil(rel, errLater)
		return false
	}
	c.settled(rel, changed)
	if c.shut == 0 {
		c.file(e, rel, &st)
	}
	if c.Move && upfile.Kind(&st) == unix.S_IFREG && st.Nlink > 1 {
		// Another name may be in a directory that is promoted, which must have no file with names outside.
		if err := unix.Unlinkat(e.Dir, e.Name, 0); err != nil {
			c.leave(rel, err)
		}
	}
	return false
}

// enter begins a directory. One that is not published is looked at only for files with several names.
func (c *collector) enter(e disk.Entry, rel string) bool {
	if e.Depth > maxDepth || len(rel) > maxPath {
		c.spoil(rel, errDeep)
		c.r.Over = true
		return false
	}
	if c.shut == 0 {
		if publish, err := c.publishDir(e, rel); !publish || err != nil {
			c.spoil(rel, err)
			c.shut = e.Depth
		}
	}
	if e.Depth == 1 && c.shut == 0 && other(rel) {
		c.tree = &openTree{rel: rel}
	}
	return c.shut == 0 || c.Move
}

// settled leaves out the current tree if something in it was changed too late.
func (c *collector) settled(rel string, changed time.Time) {
	if c.tree != nil && !c.tree.torn && !c.Settled.IsZero() && changed.After(c.Settled) {
		c.spoil(rel, errWriting)
	}
}

// publishDir reports whether anything in a directory may be published. It makes the directories of units.
func (c *collector) publishDir(e disk.Entry, rel string) (bool, error) {
	at := upfile.Below(e.Dir, e.Name)
	if c.unit != nil {
		if matchAny(c.unit.drop, e.Name) {
			return false, nil
		}
		if merged, err := merged(at); err != nil || merged {
			return false, errors.Join(err, errNoData)
		}
		_, err := c.into(rel)
		return true, err
	}
	if target, err := redirect(at); err != nil || target != "" {
		return false, errors.Join(err, errRenamed)
	}
	r := ruleFor(rel, true)
	if r.as != unit && other(rel) && secretName(e.Name, true) {
		return false, nil
	}
	_, old, err := c.pub.find(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist) && other(rel):
		if merged, err := merged(at); err != nil || merged {
			return false, errors.Join(err, errDropped)
		}
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case upfile.Kind(&old) != unix.S_IFDIR:
		return false, errors.New("it is not a directory in the layers")
	case r.as == unit:
		return false, nil
	}
	if r.as != unit {
		return true, nil
	}
	if err := c.whole(e.Dir, e.Name, rel, r); err != nil {
		return false, err
	}
	c.unit = &openUnit{rule: r, rel: rel, depth: e.Depth}
	_, err = c.into(rel)
	return true, err
}

// into returns the directory rel of the new layer, until the next call; nil if Dry.
func (c *collector) into(rel string) (*os.File, error) {
	if c.Dry {
		return nil, nil
	}
	dir, err := c.out.dir(rel)
	if err != nil && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) { // a program has just replaced what it was
		c.err = errors.Join(c.err, err)
	}
	return dir, err
}

// whole returns why the unit name in dir is not whole, or nil.
func (c *collector) whole(dir int, name, rel string, r rule) error {
	if merged, err := merged(upfile.Below(dir, name)); err != nil || merged {
		return errors.Join(err, errNoData)
	}
	if r.partial {
		if mark := goPartial(rel); mark != "" {
			f, err := disk.Open(c.From, mark, unix.O_PATH)
			if err == nil {
				f.Close()
				return errors.New("it is not unzipped yet")
			}
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				return err
			}
		}
	}
	if r.mark == "" {
		return nil
	}
	fd, err := disk.OpenAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names := []string{r.mark}
	if strings.Contains(r.mark, "*") {
		if names, err = f.Readdirnames(maxMarks); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return !matchAny([]string{r.mark}, name) })
	}
	for _, name := range names {
		st, err := upfile.Stat(fd, name)
		if err == nil && r.check != nil {
			err = r.check(c, disk.Entry{Dir: fd, Name: name}, path.Join(rel, name), st.Size)
		}
		if err == nil && upfile.Kind(&st) == unix.S_IFREG && (st.Size > 0 || !r.filled) {
			return nil
		}
	}
	return errors.New("it is incomplete")
}

// maxMarks is how many names of a unit are read to find its mark: those that have a pattern for it have few.
const maxMarks = 1000

// goPartial returns the path of the file that exists while Go unzips the module at rel, or "".
func goPartial(rel string) string {
	module, version, ok := strings.Cut(strings.TrimPrefix(rel, "go-mod/"), "@v")
	if !ok {
		return ""
	}
	return path.Join("go-mod/cache/download", module, "@v/v"+version+".partial")
}

// endTree ends the tree if an entry of that depth is not in it. It removes what was collected of one that is left out.
func (c *collector) endTree(depth int) {
	t := c.tree
	if t == nil || depth > 1 {
		return
	}
	c.tree = nil
	if t.torn {
		c.r.Torn = c.r.Torn || c.Move && t.files > 0
		c.r.Files -= t.files
		c.discard(t.rel)
	}
}

// discard removes a directory of the new layer.
func (c *collector) discard(rel string) {
	if !c.Dry {
		c.err = errors.Join(c.err, c.out.remove(rel))
	}
}

// endUnit ends the unit, and the tree, if an entry of that depth is not in it. It removes what was collected of one that is
// left out.
func (c *collector) endUnit(depth int) {
	c.endTree(depth)
	u := c.unit
	if u == nil || depth > u.depth {
		return
	}
	c.unit = nil
	if !u.bad && !c.Move { // a program may have begun to change it
		dir, err := disk.Open(c.From, path.Dir(u.rel), unix.O_PATH|unix.O_DIRECTORY)
		if err == nil {
			err = c.whole(int(dir.Fd()), path.Base(u.rel), u.rel, u.rule)
			dir.Close()
		}
		if u.bad = err != nil; u.bad {
			c.leave(u.rel, err)
		}
	}
	if u.bad || u.files == 0 {
		c.r.Torn = c.r.Torn || c.Move && u.files > 0
		c.r.Files -= u.files
		c.discard(u.rel)
	}
}

func (c *collector) Leave(e disk.Entry) {
	if e.Depth > 0 && !c.Move && (c.unit != nil && !c.unit.bad || c.tree != nil && !c.tree.torn) {
		// If a name was added, removed or renamed meanwhile, others may have been missed.
		st, err := upfile.Stat(e.Dir, e.Name)
		if err == nil && st.Ctim != c.begun[e.Depth-1] {
			err = errChanged
		}
		c.spoil(strings.Join(c.names[:e.Depth], "/"), err)
	}
	c.endUnit(e.Depth)
}

func (c *collector) Skip(e disk.Entry, err error) {
	if e.Depth == 0 {
		c.err = errors.Join(c.err, err)
	}
	c.spoil(e.Name, err)
	c.tear()
}

// spoil leaves out the current unit, if err is not nil, and the current tree, if err says that it may be incomplete.
func (c *collector) spoil(rel string, err error) {
	if err == nil {
		return
	}
	c.leave(rel, err)
	if c.unit != nil {
		c.unit.bad = true
	}
	if slices.ContainsFunc(tearing, func(sign error) bool { return errors.Is(err, sign) }) {
		c.tear()
	}
}

// tearing are the errors that tell of a program that writes, so that what was there is gone, or another one, when it is read;
// and of directories of which the upper has only a part.
var tearing = []error{errWriting, errLater, errChanged, fs.ErrNotExist, fs.ErrExist, disk.ErrMoved, errRenamed, errDropped}

// tear leaves out the current tree.
func (c *collector) tear() {
	if c.tree != nil && !c.tree.torn {
		c.tree.torn = true
		c.leave(c.tree.rel, errTorn)
	}
}

// leave notes why something was left out.
func (c *collector) leave(rel string, err error) {
	if len(c.r.Left) < maxLeft {
		rel = rel[:min(len(rel), 200)]
		c.r.Left = append(c.r.Left, fmt.Sprintf("%s: %s", escape.Name(rel), escape.Text(err.Error())))
	}
}

func (c *collector) over(why string) {
	c.r.Over = true
	c.leave(".", errors.New(why))
	if c.unit != nil {
		c.unit.bad = true
	}
	c.tear()
}
