package git

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/work"
)

// PackFetch is a fetch of objects into a store that has some of their history. Refspecs, Only,
// Prune and NoBlobs of Fetch are not used, and Depth only in an empty store.
type PackFetch struct {
	Fetch
	// Wants are the objects to fetch, with all that they reach. The remote leaves out what
	// Haves reach, of which the store must have everything. An empty store has no Haves.
	Wants, Haves []string
}

// ErrThroughGit means that only git itself can fetch from a remote.
var ErrThroughGit = errors.New("git must fetch")

const opFetch = "fetch"

// FetchPack fetches a pack over HTTP in this process, by one request on a connection that is
// usually open, makes git add it to the store, and checks that the store has all that
// f.Wants reach. git fetch would start four processes more, and ask the server twice more.
//
// It returns the objects that f.Wants name, as Known does.
//
// If the error is ErrThroughGit, use Fetch: the remote is not an HTTP server with protocol
// 2 that LsRefs has just asked, it needs to hear of more objects, or its pack can't be used.
// After an error the store may have the pack.
func (g *Git) FetchPack(ctx context.Context, f PackFetch) (known map[string]Object, err error) {
	if !g.direct(f.Remote.URL) {
		return nil, ErrThroughGit
	}
	began := time.Now()
	defer func() { g.observe(FetchedRemote, ThisProcess, began, err) }()
	ctx, done, err := g.schedule(ctx, work.Fetch, false, opFetch, f.Remote.URL)
	if err != nil {
		return nil, err
	}
	defer done()
	if err = g.receivePack(ctx, f); g.needsOneThread(err) && SweepStore(f.Store) == nil {
		f.oneThread = true
		err = g.receivePack(ctx, f)
	}
	if err == nil {
		known, err = g.received(ctx, f)
	}
	switch kind := giterror.KindOf(err); {
	case err == nil:
		return known, nil
	case ctx.Err() != nil:
		err = giterror.New(opFetch, f.Remote.URL, "", context.Cause(ctx), false)
	case kind != giterror.KindNoSpace && kind != giterror.KindLimit && kind != giterror.KindCredential && kind != giterror.KindAuth:
		err = fmt.Errorf("%w: %w", ErrThroughGit, err)
	}
	return nil, errors.Join(err, SweepStore(f.Store))
}

// received checks a store that has received a pack, and returns what FetchPack does.
func (g *Git) received(ctx context.Context, f PackFetch) (map[string]Object, error) {
	if len(f.Haves) == 0 { // git has checked the pack alone
		return g.Known(ctx, f.Store, f.Wants)
	}
	if known, connected := g.connectedByFewChanges(ctx, f.Store, f.Wants); connected {
		return known, nil
	}
	connected, err := g.connectedByWalk(ctx, f.Store, f.Wants, false)
	if err == nil && !connected {
		err = errors.New("objects are missing in the pack, or in the store")
	}
	if err != nil {
		return nil, err
	}
	return g.Known(ctx, f.Store, f.Wants)
}

// receivePack fetches a pack and adds it to the store.
func (g *Git) receivePack(ctx context.Context, f PackFetch) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The remote may be silent before its answer, and within it.
	silence := &alarm{timer: time.AfterFunc(g.config.StallTimeout, func() { cancel(giterror.SilentError(g.config.StallTimeout)) }), after: g.config.StallTimeout}
	defer silence.pause()
	return g.follow(ctx, f.Remote, func(url string) error {
		if !g.direct(url) { // after a redirect
			return ErrThroughGit
		}
		return f.Remote.WithAuth(ctx, opFetch, url, func(auth *Auth) error {
			listen := func(body io.Reader) io.Reader { return &listener{body, silence} }
			err := g.http.Fetch(ctx, f.Remote.direct(url, auth), gitref.Fetch{Wants: f.Wants, Haves: f.Haves, Depth: f.Depth}, listen, func(pack io.Reader, shallow []string) error {
				uid, gid := g.Owner()
				if err := writeShallow(f.Store, shallow, uid, gid); err != nil {
					return err
				}
				return g.addPack(ctx, f, url, pack)
			})
			return g.finalError(ctx, opFetch, f.Remote, url, auth, err)
		})
	})
}

// listener limits how long each read takes.
type listener struct {
	io.Reader
	silence *alarm
}

func (l *listener) Read(p []byte) (int, error) {
	l.silence.resume()
	defer l.silence.pause()
	return l.Reader.Read(p)
}

// addPack makes git add a pack to a store.
func (g *Git) addPack(ctx context.Context, f PackFetch, url string, pack io.Reader) error {
	// The magic number, the version, and the number of objects.
	const header = 12
	buffered := bufio.NewReaderSize(pack, 64<<10) // a packet
	if start, err := buffered.Peek(header); err == nil && binary.BigEndian.Uint32(start[header-4:]) == 0 {
		return nil // the store has all objects, and git would add an empty pack
	}
	args := append(syncing(f.New), "index-pack", "--stdin", "-v", "--fix-thin")
	if len(f.Haves) == 0 {
		// Fail if an object of the pack refers to one that is not there.
		args = append(args, "--check-self-contained-and-connected")
	}
	c := g.InStore(f.Store, Command{Op: opFetch, url: url, Write: []string{f.Store}, fetches: true, oneThread: f.oneThread, Dialog: true, Stderr: reporter(f.Progress)}, args...)
	var readErr error
	c.Talk = Feed(func(_ context.Context, w *bufio.Writer) error {
		n, err := buffered.WriteTo(w)
		if !errors.Is(err, syscall.EPIPE) {
			readErr = err
		}
		if n > 1<<20 && w.Flush() == nil {
			// Let the disk write the pack while git resolves its deltas.
			durable.WriteBack(filepath.Join(f.Store, "objects/pack"))
		}
		return err
	})
	_, err := g.Run(ctx, c)
	if f.New {
		durable.WriteBack(filepath.Join(f.Store, "objects/pack")) // while git looks the objects up
	}
	return cmp.Or(readErr, err)
}

// reporter returns a Command.Stderr that reports a fetch's progress.
func reporter(progress func(gitprogress.Progress)) func(line string) {
	if progress == nil {
		return nil
	}
	return func(line string) {
		if p, ok := gitprogress.Parse(line); ok {
			progress(p)
		}
	}
}
