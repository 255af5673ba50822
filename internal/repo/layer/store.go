package layer

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/place"
	"github.com/helmdeck/repos/internal/work"
)

// Config is what a Store works with.
type Config struct {
	Root  string // the data directory
	Boot  string // the kernel's boot ID
	DB    *meta.DB
	Trash *trash.Trash
	Log   *logrus.Logger
	Now   func() time.Time
	// Background runs a function in a goroutine of its own. The function's context ends
	// when the plugin stops, and the plugin waits for the function.
	Background func(func(ctx context.Context))
}

// Store holds the layers of a data directory. It is safe for concurrent use.
type Store struct {
	config  Config
	syncs   chan struct{} // makes Run sync
	syncing work.Lock
	// begun is the number of the newest sync, and done that of the newest successful one.
	begun, done atomic.Int64
	builds      atomic.Int64 // see Building

	mu   sync.Mutex // never held over I/O
	sets map[string]*Set
}

// dirs has the directories of an owner's layers by kind.
var dirs = map[meta.Kind]string{meta.Tree: place.Trees, meta.GitLayer: place.GitLayers, meta.WarmLayer: place.WarmLayers}

// New returns a Store with the layers that state has records of. Call Run.
func New(c Config, state meta.State) *Store {
	s := &Store{config: c, syncs: make(chan struct{}, 1), sets: make(map[string]*Set)}
	for _, layers := range []map[string]meta.Layer{state.Trees, state.GitLayers, state.WarmLayers} {
		for _, l := range layers {
			s.Set(l.Clone).known[nameOf(l)] = l
		}
	}
	s.syncSoon() // what an earlier run left unsynced
	return s
}

// Set returns the layers of an owner. The Set may be empty.
func (s *Store) Set(owner string) *Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	set, ok := s.sets[owner]
	if !ok {
		set = &Set{store: s, owner: owner, known: make(map[name]meta.Layer)}
		s.sets[owner] = set
	}
	return set
}

func (s *Store) all() []*Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sets))
}

// Owners returns all owners that may have layers of a kind: those with a Set, and those
// with a directory for the kind. Some are in the list twice.
func (s *Store) Owners(k meta.Kind) ([]string, error) {
	var owners []string
	found, err := place.All(s.config.Root, dirs[k])
	for _, f := range found {
		owners = append(owners, f.Key)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.AppendSeq(owners, maps.Keys(s.sets)), err
}

func dirOf(root, owner string, k meta.Kind) string {
	return filepath.Join(place.Clone(root, owner), dirs[k])
}

// Lower returns the directories of layers of one kind below a data directory, for an
// overlay.
func Lower(root, owner string, k meta.Kind, ids ...string) []string {
	lower := make([]string, len(ids))
	for i, id := range ids {
		lower[i] = filepath.Join(dirOf(root, owner, k), id)
	}
	return lower
}
