package remote

import (
	"context"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Log adds the clone to each line. There is no logrus.Entry for each clone, because one takes half a
// kilobyte.
type Log struct {
	Logger *logrus.Logger
	Clone  string
}

// WithContext returns an entry for one line.
func (l Log) WithContext(ctx context.Context) *logrus.Entry {
	return l.Logger.WithContext(ctx).WithField("clone", l.Clone)
}

// Config configures a Remote. Its functions belong to the clone, and are called without
// a mutex held.
type Config struct {
	Dir   string         // the directory that has the stores
	Used  *work.Resource // fetches and questions are its tasks
	Git   *git.Git
	Trash *trash.Trash
	Log   Log
	Now   func() time.Time
	// AskTimeout is how long a remote may take to say where a ref stands.
	AskTimeout time.Duration
	// Listings has the slots of listings in the background, with the limits Listings. Nil
	// grants every slot.
	Listings *work.Scheduler

	// Credential returns the credential of a name for a URL or, without a name, the one
	// whose scope fits best. Nil without an error means none.
	Credential func(ctx context.Context, url, name string) (*git.Auth, error)
	// CredentialChanges counts the changes of stored credentials. It may be nil.
	CredentialChanges func() int64
	// WithRoom calls f. If the disk is full it makes room and calls f again.
	WithRoom func(ctx context.Context, need disk.Size, f func() error) error
	// MakeDir makes Dir and its contents before a store is made in it, and SyncDir syncs
	// them before the store gets its name. RemoveDir removes Dir if nothing was fetched.
	MakeDir   func() error
	SyncDir   func() error
	RemoveDir func() error
	// Save saves the records that Stores returns.
	Save func() error
	// Measure is called with the names of stores that have changed.
	Measure func(stores ...string)
}

// Remote is one remote repository. It is safe for concurrent use.
type Remote struct {
	config Config
	Records
	Doing    Activities
	asked    atomic.Int64              // the number of questions that were begun
	answered atomic.Pointer[time.Time] // see Answered
	kept     kept
	locks    storeLocks

	aligning sync.Mutex         // guards the maps, nil until they are needed; never held over I/O
	others   map[string]*others // by the name of the store
	// newestStored has the newest question, by the name of the store, whose answer is in the
	// store. Answers to older ones must not move refs back. git's fetches count as
	// questions.
	newestStored map[string]storedAnswer
	// unlisted is set if the first question for all branches and tags failed: the next one,
	// without a store, is for the ref alone.
	unlisted atomic.Bool
}

// New returns a Remote with the records of its stores; nil if nothing was fetched.
func New(c Config, stores map[string]meta.Store) *Remote {
	return &Remote{config: c, Records: newRecords(c.Now, stores)}
}

// Source names a ref of a repository, and says how to ask for it.
type Source struct {
	URL     volume.URL // as the volume spells it
	Ref     volume.Ref
	History volume.History
	// ColdShallow allows volume.ColdHistory while there is no store of History.
	ColdShallow bool
	Refresh     volume.Refresh
	Since       Since
	Others      Others
	// StaleIfError is how old the last answer may be if the remote does not answer now.
	// Zero never allows an old answer.
	StaleIfError time.Duration
	Credential   string // a name, or empty for the one that fits best
	// Pin has the checked addresses of the host of a submodule.
	Pin []netip.Addr
}

// Others says what happens to branches and tags that a Source does not name.
type Others int

const (
	OthersLater   Others = iota // what can't be had at once is fetched in the background
	OthersNow                   // all are fetched before
	OthersIgnored               // they stay as they are
)

// StoreDir returns the directory of a store.
func (m *Remote) StoreDir(name string) string {
	return filepath.Join(m.config.Dir, place.Stores, name+".git")
}

// at returns the repository as git finds it, with its credentials.
func (m *Remote) at(s Source) git.Remote {
	return git.Remote{URL: s.URL.WithoutUser().String(), User: s.URL.HTTPUser(), Pin: s.Pin, Auth: func(ctx context.Context, url string) (*git.Auth, error) { return m.Auth(ctx, s, url) }}
}

// Auth returns the credential for a URL that belongs to the repository.
func (m *Remote) Auth(ctx context.Context, s Source, url string) (*git.Auth, error) {
	return m.config.Credential(ctx, url, s.Credential)
}

// Ahead returns how many commits the history of commit has that the history of another
// commit, of, lacks, as far as the store of s has them; all if of is empty.
func (m *Remote) Ahead(ctx context.Context, s Source, commit, of string) (int, error) {
	return m.config.Git.Ahead(ctx, m.StoreDir(s.History.Name()), commit, of)
}
