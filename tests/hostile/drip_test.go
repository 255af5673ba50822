package hostile

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/tests/siege"
	"github.com/helmdeck/repos/tests/testgit"
)

// drip takes a piece of size bytes in each interval, until ctx ends. taking counts those that do so.
type drip struct {
	ctx    context.Context
	size   int64
	every  time.Duration
	taking *atomic.Int64
}

// ReadFrom is what io.Copy calls in place of Write, so that no larger piece is read ahead.
func (d drip) ReadFrom(r io.Reader) (n int64, err error) {
	d.taking.Add(1)
	defer d.taking.Add(-1)
	tick := time.NewTicker(d.every)
	defer tick.Stop()
	for {
		got, err := io.CopyN(io.Discard, r, d.size)
		n += got
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		select {
		case <-tick.C:
		case <-d.ctx.Done():
			return n, context.Cause(d.ctx)
		}
	}
}

func (d drip) Write(p []byte) (int, error) {
	n, err := d.ReadFrom(strings.NewReader(string(p)))
	return int(n), err
}

// dripping is how many clients read an answer slowly.
var dripping atomic.Int64

// readingSubjects is how many subjects dripReaders has, each with dripReads.
const readingSubjects = 6

// dripReads is what the clients of each of these subjects read.
var dripReads = []string{diffs, archives}

// dripReaders makes a container with much to read for each of some subjects. The clients read 1 KiB a second.
func dripReaders(b *battle) (func(ctx context.Context), error) {
	var ids []string
	for n := range readingSubjects {
		dir, id, err := b.workspace(fmt.Sprint("drip-", n), b.server)
		if err != nil {
			return nil, err
		}
		if err := writeLarge(dir); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return func(ctx context.Context) {
		loop(ctx, len(dripReads)*len(ids), func(ctx context.Context, i int) {
			b.inspect(ctx, ids[i/len(dripReads)], dripReads[i%len(dripReads)], drip{ctx, 1 << 10, time.Second, &dripping})
		})
	}, nil
}

// slowRemotes is how many subjects push to remotes that take little at a time.
const slowRemotes = 12

// slowPack is the size of what each pushes, in bytes. It takes minutes.
const slowPack = 8 << 20

// dripRemotes pushes from each of some subjects to a remote that takes 40 KiB a second: a little more than what keeps a
// push from being ended for others.
func dripRemotes(b *battle) (func(ctx context.Context), error) {
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// git sends a pack of more than 1 MiB in chunks, after a request of four bytes.
		if r.ContentLength >= 0 || !strings.HasSuffix(r.URL.Path, "/git-receive-pack") {
			server.ServeHTTP(w, r)
			return
		}
		_, _ = drip{r.Context(), 4 << 10, time.Second / 10, &trickling}.ReadFrom(r.Body) // the client hung up, or the pack is taken
	}))
	b.Cleanup(front.Close)
	var ids []string
	for n := range slowRemotes {
		repo := fmt.Sprintf("drip-%d-%d", time.Now().UnixNano(), n)
		if err := os.Symlink(server.Path("pushed"), server.Path(repo)); err != nil {
			return nil, err
		}
		dir, id, err := b.workspaceOf(fmt.Sprint(siege.SubjectPrefix, "slow-", n), front.URL+"/"+repo)
		if err != nil {
			return nil, err
		}
		data := make([]byte, slowPack)
		rand.Read(data)
		if err := os.WriteFile(filepath.Join(dir, "large"), data, 0o644); err != nil {
			return nil, err
		}
		testgit.GitAny(b, dir, "-c", "core.compression=0", "add", "large")
		testgit.GitAny(b, dir, "commit", "-q", "-m", "large")
		ids = append(ids, id)
	}
	again := b.pushAgain(ids)
	return func(ctx context.Context) {
		again(ctx)
		front.CloseClientConnections() // a server that has more to read does not see that its client hung up
	}, nil
}
