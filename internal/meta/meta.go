package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
)

const (
	version = "3"
	// openTimeout is how long Open waits for another process to close the file: a plugin
	// that is being replaced ends much sooner.
	openTimeout = 5 * time.Second
)

var (
	// ErrInUse is returned by Open while another process has the file open.
	ErrInUse = errors.New("another instance is using it")
	// ErrDamaged is returned by Open for a file that is not a database, or whose records
	// can't be read.
	ErrDamaged = errors.New("damaged")
	// ErrVersion is returned by Open for a file of another schema.
	ErrVersion = errors.New("made by another version")
)

// DB is an open database. It is safe for concurrent use.
type DB struct {
	bolt *bbolt.DB

	mu      sync.Mutex // never held over I/O
	waiting []*call
	// lead is held by the goroutine that commits, and guards the fields below.
	lead      chan struct{}
	allocated int64     // bytes at the start of the file that have blocks
	reserve   int64     // bytes of that to keep unused
	refused   time.Time // when the filesystem last had no room for the reserve
}

// State is everything in the database.
type State struct {
	Volumes    map[string]Volume
	Clones     map[string]Clone
	Trees      map[string]Layer // by clone key, "/" and ID
	GitLayers  map[string]Layer // likewise
	Workspaces map[string]Workspace
	WarmLayers map[string]Layer    // by clone key, "/" and ID
	WarmHeads  map[string]WarmHead // by clone key, "/" and key
	Subjects   map[string]Subject  // those with limits of their own, by name
	// Publications are those of volumes to pods, by target path.
	Publications map[string]Publication
	// Events are those of the janitor, by key.
	Events map[string]Event
}

var (
	metaBucket   = []byte("meta")
	versionKey   = []byte("version")
	volumes      = bucket[Volume]("volumes")
	clones       = bucket[Clone]("clones")
	trees        = bucket[Layer]("trees")
	gitLayers    = bucket[Layer]("gitlayers")
	workspaces   = bucket[Workspace]("workspaces")
	warmLayers   = bucket[Layer]("warmlayers")
	warmHeads    = bucket[WarmHead]("warmheads")
	subjects     = bucket[Subject]("subjects")
	publications = bucket[Publication]("publications")
	events       = bucket[Event]("events")
	layers       = map[Kind]bucket[Layer]{Tree: trees, GitLayer: gitLayers, WarmLayer: warmLayers}
	recordBucket = []string{
		string(volumes), string(clones), string(trees), string(gitLayers), string(workspaces), string(warmLayers), string(warmHeads),
		string(subjects), string(publications), string(events),
	}
)

// Open opens or creates the database at path, and returns its content. It waits 5 s for
// another process to close it, then fails with ErrInUse. If the file can't be read the
// error is ErrDamaged: call SetAside and Open again to start over.
func Open(path string) (db *DB, state State, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open database %s: %w", path, err)
		}
	}()
	// bbolt panics on a damaged page, and a truncated file faults in the memory map.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var b *bbolt.DB
	defer func() {
		if r := recover(); r != nil {
			if b != nil {
				b.Close()
			}
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	// bbolt would take an empty file for a new database, and lose all records.
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil, State{}, fmt.Errorf("%w: the file is empty", ErrDamaged)
	}
	b, err = openFile(path)
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, State{}, ErrInUse
	case err != nil:
		var sys *os.PathError
		if errors.As(err, &sys) {
			return nil, State{}, err
		}
		return nil, State{}, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	db = &DB{bolt: b, lead: make(chan struct{}, 1), reserve: disk.ReserveFor(filepath.Dir(path))}
	if err := db.prepare(); err != nil {
		b.Close()
		return nil, State{}, err
	}
	state, err = db.load()
	if err != nil {
		b.Close()
		return nil, State{}, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	// The pages that load has read count as this process's memory as long as they are mapped: some
	// 5 KiB for each clone.
	if err := b.Close(); err != nil {
		return nil, State{}, err
	}
	if db.bolt, err = openFile(path); err != nil {
		return nil, State{}, err
	}
	b = db.bolt
	// Start on a full disk too: the reserve of an earlier run is still there.
	_ = db.extendReserve()
	return db, state, nil
}

func openFile(path string) (*bbolt.DB, error) {
	return bbolt.Open(path, 0o600, &bbolt.Options{Timeout: openTimeout, FreelistType: bbolt.FreelistMapType})
}

// SetAside renames a damaged database out of the way, and returns its new name.
func SetAside(path string, now time.Time) (string, error) {
	aside := fmt.Sprintf("%s.damaged-%s", path, now.UTC().Format("20060102T150405.000000000"))
	return filepath.Base(aside), os.Rename(path, aside)
}

func (db *DB) prepare() error {
	defer failpoint.Hit("meta/open/committed")
	if db.prepared() {
		return nil
	}
	return db.bolt.Update(func(tx *bbolt.Tx) error {
		m, err := tx.CreateBucketIfNotExists(metaBucket)
		if err != nil {
			return err
		}
		found := m.Get(versionKey)
		if found != nil && string(found) != version {
			return fmt.Errorf("%w: its schema is %q, this program's is %q", ErrVersion, found, version)
		}
		for _, name := range recordBucket {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return err
			}
		}
		if found != nil {
			return nil
		}
		failpoint.Hit("meta/open/prepared")
		return m.Put(versionKey, []byte(version))
	})
}

// prepared reports whether prepare has nothing to write.
func (db *DB) prepared() (ok bool) {
	err := db.bolt.View(func(tx *bbolt.Tx) error {
		m := tx.Bucket(metaBucket)
		ok = m != nil && string(m.Get(versionKey)) == version
		for _, name := range recordBucket {
			ok = ok && tx.Bucket([]byte(name)) != nil
		}
		return nil
	})
	return ok && err == nil
}

func (db *DB) load() (s State, err error) {
	err = db.bolt.View(func(tx *bbolt.Tx) error {
		strings := make(interner)
		s.Volumes, err = volumes.all(tx)
		if err == nil {
			s.Clones, err = clones.all(tx)
		}
		for key, c := range s.Clones {
			strings.clone(&c)
			s.Clones[key] = c
		}
		if err == nil {
			s.Trees, err = allLayers(tx, Tree, strings)
		}
		if err == nil {
			s.GitLayers, err = allLayers(tx, GitLayer, strings)
		}
		if err == nil {
			s.Workspaces, err = workspaces.all(tx)
		}
		if err == nil {
			s.WarmLayers, err = allLayers(tx, WarmLayer, strings)
		}
		if err == nil {
			s.WarmHeads, err = warmHeads.all(tx)
		}
		if err == nil {
			s.Subjects, err = subjects.all(tx)
		}
		if err == nil {
			s.Publications, err = publications.all(tx)
		}
		if err == nil {
			s.Events, err = events.all(tx)
		}
		return err
	})
	return s, err
}

// allLayers returns the layers of a kind, with Kind set.
func allLayers(tx *bbolt.Tx, k Kind, strings interner) (map[string]Layer, error) {
	all, err := layers[k].all(tx)
	for key, l := range all {
		l.Kind = k
		strings.layer(&l)
		all[key] = l
	}
	return all, err
}

// Close waits until all transactions have ended and closes the file.
func (db *DB) Close() error { return db.bolt.Close() }

// Tx is a write transaction. It is valid until the function that got it returns.
type Tx struct{ tx *bbolt.Tx }

func (t *Tx) PutVolume(v Volume) error       { return volumes.put(t.tx, v.Name, v) }
func (t *Tx) DeleteVolume(name string) error { return volumes.delete(t.tx, name) }
func (t *Tx) PutClone(c Clone) error         { return clones.put(t.tx, c.Key, c) }
func (t *Tx) DeleteClone(key string) error   { return clones.delete(t.tx, key) }
func (t *Tx) PutLayer(l Layer) error         { return layers[l.Kind].put(t.tx, l.key(), l) }
func (t *Tx) DeleteLayer(l Layer) error      { return layers[l.Kind].delete(t.tx, l.key()) }
func (t *Tx) PutWorkspace(w Workspace) error {
	if err := w.check(); err != nil {
		return err
	}
	return workspaces.put(t.tx, w.ID, w)
}
func (t *Tx) DeleteWorkspace(id string) error { return workspaces.delete(t.tx, id) }
func (t *Tx) PutWarmHead(h WarmHead) error    { return warmHeads.put(t.tx, h.key(), h) }
func (t *Tx) DeleteWarmHead(h WarmHead) error { return warmHeads.delete(t.tx, h.key()) }
func (t *Tx) PutSubject(s Subject) error      { return subjects.put(t.tx, s.Name, s) }
func (t *Tx) DeleteSubject(name string) error { return subjects.delete(t.tx, name) }
func (t *Tx) PutPublication(p Publication) error {
	return publications.put(t.tx, p.Target, p)
}
func (t *Tx) DeletePublication(target string) error { return publications.delete(t.tx, target) }

// Put writes every record of s.
func (t *Tx) Put(s State) error {
	return errors.Join(
		putAll(s.Volumes, t.PutVolume), putAll(s.Clones, t.PutClone), putAll(s.Trees, t.PutLayer), putAll(s.GitLayers, t.PutLayer),
		putAll(s.Workspaces, t.PutWorkspace), putAll(s.WarmLayers, t.PutLayer), putAll(s.WarmHeads, t.PutWarmHead),
		putAll(s.Subjects, t.PutSubject), putAll(s.Publications, t.PutPublication), putAll(s.Events, t.PutEvent),
	)
}

func putAll[T any](records map[string]T, put func(T) error) error {
	for _, r := range records {
		if err := put(r); err != nil {
			return err
		}
	}
	return nil
}

// bucket is a named set of records of one type.
type bucket[T any] string

func (b bucket[T]) put(tx *bbolt.Tx, key string, v T) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s %q: %w", b, key, err)
	}
	return tx.Bucket([]byte(b)).Put([]byte(key), data)
}

func (b bucket[T]) delete(tx *bbolt.Tx, key string) error {
	return tx.Bucket([]byte(b)).Delete([]byte(key))
}

func (b bucket[T]) all(tx *bbolt.Tx) (map[string]T, error) {
	m := make(map[string]T)
	err := tx.Bucket([]byte(b)).ForEach(func(k, data []byte) error {
		if len(k) > bbolt.MaxKeySize { // a damaged length: the error must not quote a gigabyte
			return fmt.Errorf("%s: a key of %d bytes", b, len(k))
		}
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return fmt.Errorf("%s %q: %w", b, k, err)
		}
		m[string(k)] = v
		return nil
	})
	return m, err
}
