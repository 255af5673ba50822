package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

// Job is one download of objects into a storage.
type Job struct {
	Endpoint string // the server's URL, such as https://host/path.git/info/lfs
	// Auth returns the credential for that server, and for no other; nil: there is none. It is
	// called for each request, because a secret may end before the last one.
	Auth    func(ctx context.Context) (*git.Auth, error)
	Rule    guard.Rule
	Storage string // a directory
	Objects []lfs.Pointer
	// Progress, if set, is called from several goroutines.
	Progress func(gitprogress.Progress)
}

const (
	batchSize = 100 // objects in one batch request, as git-lfs does
	downloads = 4   // at the same time
	// maxStall is how long nothing may arrive before a request is ended.
	maxStall = 60 * time.Second
	// batchTotal bounds the total time of a request for a batch response of at most maxBatch
	// bytes. All requests together have the time of a fetch.
	batchTotal = 5 * time.Minute
)

// Run downloads j.Objects into the storage. It keeps each object that arrived complete
// and with the right hash, even if another one fails. Every connection must satisfy
// j.Rule, wherever the server redirects to. It sends the credential only to the server's
// own host and port, and only where its Covers allows. An error of the server is a
// *giterror.Error.
func (j Job) Run(ctx context.Context, g *git.Git) (err error) {
	ctx, done, err := g.ScheduleFetch(ctx, "fetch the LFS objects of", j.Endpoint)
	if err != nil {
		return err
	}
	defer done()
	temp, err := os.MkdirTemp(j.Storage, durable.TempPrefix+"*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	client := newClient(g, j)
	defer client.http.CloseIdleConnections()
	fetchErr := client.fetch(ctx, temp)
	return errors.Join(fetchErr, publish(temp, j.Storage))
}

// publish moves verified downloads into the storage.
func publish(temp, storage string) error {
	if err := durable.SyncTree(temp); err != nil {
		return err
	}
	done, err := os.ReadDir(temp)
	if err != nil {
		return err
	}
	for _, d := range done {
		to := lfs.Object(storage, d.Name())
		if err := durable.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := durable.RenameVolatile(filepath.Join(temp, d.Name()), to); err != nil {
			return err
		}
	}
	return nil
}

func (c client) fetch(ctx context.Context, temp string) error {
	total, received := int64(0), new(atomic.Int64)
	wanted := make(map[string]lfs.Pointer) // by ID: files may have the same content
	var list []lfs.Pointer
	for _, p := range c.Objects {
		if _, ok := wanted[p.OID]; !ok {
			wanted[p.OID] = p
			list = append(list, p)
			total += min(p.Size, math.MaxInt64-total) // a pointer may say anything
		}
	}
	count := func(n int64) {
		if c.Progress != nil {
			now := received.Add(n)
			c.Progress(gitprogress.Progress{Phase: "Receiving LFS objects", Percent: int(now * 100 / max(total, 1)), Amount: fmt.Sprintf("%.2f MiB", float64(now)/(1<<20))})
		}
	}
	for len(list) > 0 {
		part := list[:min(len(list), batchSize)]
		list = list[len(part):]
		var actions map[string]action
		if err := giterror.Retry(ctx, func() (err error) {
			return c.withAuth(ctx, func(ctx context.Context) error {
				actions, err = c.batch(ctx, part)
				return err
			})
		}); err != nil {
			return err
		}
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(downloads)
		for _, p := range part {
			g.Go(func() error {
				a := actions[p.OID]
				get := func(ctx context.Context) error { return c.download(ctx, p, a, filepath.Join(temp, p.OID), count) }
				return giterror.Retry(ctx, func() error {
					if c.takesAuth(a) {
						return c.withAuth(ctx, get)
					}
					return get(ctx)
				})
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// download writes an object to path, and removes the file again if it does not match the
// pointer.
func (c client) download(ctx context.Context, p lfs.Pointer, a action, path string, count func(int64)) (err error) {
	watch := newWatch(ctx, c.limits.silence)
	defer watch.stop()
	response, err := c.get(watch.ctx, a)
	if err != nil {
		return c.objectError(p, watch.cause(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return c.objectError(p, httpStatus(response.StatusCode))
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o444)
	if err != nil {
		return err
	}
	hash, n := sha256.New(), int64(0)
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			count(-n)
			err = errors.Join(err, os.Remove(path))
		}
	}()
	body := io.LimitReader(watch.body(response), min(p.Size, math.MaxInt64-1)+1)
	for buf := make([]byte, 256<<10); ; {
		got, readErr := body.Read(buf)
		n += int64(got)
		count(int64(got))
		hash.Write(buf[:got])
		if _, err := file.Write(buf[:got]); err != nil {
			return err
		}
		if readErr == io.EOF {
			break
		}
		if readErr != nil {
			return c.objectError(p, watch.cause(readErr))
		}
	}
	if n != p.Size || hex.EncodeToString(hash.Sum(nil)) != p.OID {
		return c.objectError(p, fmt.Errorf("the server sent another content (%d bytes, want %d)", n, p.Size))
	}
	return nil
}
