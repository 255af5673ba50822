package csi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work/keylock"
)

// Name is the name of the driver, by which pods and persistent volumes choose it.
const Name = "repos.helmdeck.dev"

// Config is what a Driver works with.
type Config struct {
	Volumes verbs.Verbs
	DB      *meta.DB
	Lend    Lender
	Log     *logrus.Logger
	Now     func() time.Time
	Version string
	Node    string // the ID of this node
	// Kubelet is kubelet's directory, below which all target paths are.
	Kubelet string
	// Wait is how long a call may take whose caller gives no deadline.
	Wait time.Duration
	// Unready returns why no volume can be published now; nil if one can. It may be nil.
	Unready func() error
	// Observe is called after each call to publish and to unpublish, by concurrent calls, with the name of
	// the call and of its code. It must not block. It may be nil.
	Observe func(operation, code string)
}

// Driver answers kubelet. It is safe for concurrent use.
type Driver struct {
	config  Config
	volumes keylock.Locks[string] // held while a volume is published at one target, or unpublished

	mu        sync.Mutex // never held during I/O
	published map[string]meta.Publication
	busy      map[string]bool   // the targets of calls under way
	lent      map[string]string // the names of the credentials that came with calls, by target
}

// New returns a Driver with the publications of an earlier process.
func New(c Config, state meta.State) *Driver {
	d := &Driver{
		config: c, published: make(map[string]meta.Publication), busy: make(map[string]bool), lent: make(map[string]string),
	}
	for target, p := range state.Publications {
		d.published[target] = p
	}
	return d
}

// Publications returns what is published, or about to be, by target path.
func (d *Driver) Publications() []meta.Publication {
	d.mu.Lock()
	list := make([]meta.Publication, 0, len(d.published))
	for _, p := range d.published {
		list = append(list, p)
	}
	d.mu.Unlock()
	slices.SortFunc(list, func(a, b meta.Publication) int { return strings.Compare(a.Target, b.Target) })
	return list
}

// begin takes a target and its volume for one call, until end. It fails with the code
// Aborted while another call has the target, and if ctx ends before the volume is free:
// otherwise one subject could get the volume that a call of another one has just made.
func (d *Driver) begin(ctx context.Context, target, name string) (end func(), err error) {
	release, err := d.take(target)
	if err != nil {
		return nil, err
	}
	unlock, err := d.volumes.Lock(ctx, name)
	if err != nil {
		release()
		return nil, failf(codes.Aborted, "another call for volume %q is under way: %w: try again", name, err)
	}
	return func() { unlock(); release() }, nil
}

// take takes a target until release.
func (d *Driver) take(target string) (release func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[target] {
		return nil, failf(codes.Aborted, "another call for %q is under way: try again", target)
	}
	d.busy[target] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.busy, target)
	}, nil
}

// publication returns the record of a target.
func (d *Driver) publication(target string) (p meta.Publication, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok = d.published[target]
	return p, ok
}

// record commits the record of a publication.
func (d *Driver) record(p meta.Publication) error {
	if err := d.config.DB.Update(func(tx *meta.Tx) error { return tx.PutPublication(p) }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.published[p.Target] = p
	return nil
}

// forget deletes the record of a publication.
func (d *Driver) forget(p meta.Publication) error {
	if _, ok := d.publication(p.Target); !ok {
		return nil
	}
	if err := d.config.DB.Update(func(tx *meta.Tx) error { return tx.DeletePublication(p.Target) }); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.published, p.Target)
	return nil
}

// pods returns the directory below which all target paths are.
func (d *Driver) pods() string { return filepath.Join(d.config.Kubelet, "pods") }

// targetOf checks a target path.
func (d *Driver) targetOf(path string) (overlay.Target, error) {
	if path == "" {
		return overlay.Target{}, failf(codes.InvalidArgument, "the request has no target path")
	}
	rel, ok := strings.CutPrefix(path, d.pods()+"/")
	if !ok || !filepath.IsLocal(rel) || rel != filepath.Clean(rel) || rel == "." || len(path) > maxPath {
		return overlay.Target{}, failf(codes.InvalidArgument, "the target path %.200q is not a clean path below %q: set KUBELET_DIR to kubelet's directory", path, d.pods())
	}
	return overlay.Target{Dir: d.pods(), Rel: rel}, nil
}

// maxPath is PATH_MAX.
const maxPath = 4096

// leaseOf returns the lease of a target path. It has a fixed length and no #, whatever the path is.
func leaseOf(target string) string {
	sum := sha256.Sum256([]byte(target))
	return hex.EncodeToString(sum[:8])
}

// patience returns the context of the work of a call. It ends somewhat before the caller's
// deadline, so that the caller gets the answer.
func (d *Driver) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	const reply = time.Second
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithTimeout(ctx, d.config.Wait)
	}
	left := time.Until(deadline)
	return context.WithTimeout(ctx, max(left-reply, left/2))
}
