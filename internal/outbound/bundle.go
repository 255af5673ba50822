package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/work"
)

// bundleLife is how long a bundle is kept for its reader, because it holds the subject's turn and a
// part of the disk.
const bundleLife = 30 * time.Minute

var errBundleLife = fmt.Errorf("the bundle was not read within %v", bundleLife)

// Bundle is a git bundle, ready to be read. Close it.
type Bundle struct {
	Result
	Size     int64 // in bytes
	Branches []quarantine.Branch

	content io.Reader
	expires time.Time
	turn    *work.Slot
	ctx     context.Context
	end     func() // of ctx
	close   func() error
}

// Context ends with that of the call that made the bundle, and with a *work.StalledError if others wait for the turn and the
// bundle is read slowly: whoever writes it to a client gives up then.
func (b *Bundle) Context() context.Context { return b.ctx }

// Read reads the bundle. It fails half an hour after the bundle was made, and after the end of Context.
func (b *Bundle) Read(data []byte) (int, error) {
	if time.Now().After(b.expires) {
		return 0, errBundleLife
	}
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	n, err := b.content.Read(data)
	b.turn.Moved(int64(n))
	return n, err
}

// Close removes the bundle. It may be called more than once.
func (b *Bundle) Close() error { return b.close() }

// Bundle makes a bundle of a branch of a workspace, or of several. It has what the refs that the
// workspace began with do not reach, and needs a repository that has those. The errors are those of Push.
func (p *Pusher) Bundle(ctx context.Context, r Request, report Progress) (b *Bundle, err error) {
	err = p.run(ctx, "export", r.Workspace, func(ctx context.Context) (err error) {
		b, err = p.bundle(ctx, r, report)
		return err
	})
	if err != nil {
		return nil, err
	}
	b.ctx, b.end = b.turn.Outside(ctx, stalledReader)
	return b, nil
}

func (p *Pusher) bundle(ctx context.Context, r Request, report Progress) (b *Bundle, err error) {
	var res Result
	src, err := p.open(ctx, r.Workspace, &res, report)
	if err != nil {
		return nil, err
	}
	defer func() {
		if b == nil {
			src.close()
		}
	}()
	var branches []quarantine.Branch
	if r.Branch == "" {
		branches, err = src.repo.Differing()
	} else {
		branches = make([]quarantine.Branch, 1)
		branches[0], err = src.repo.Branch(r.Branch)
	}
	if err != nil {
		return nil, err
	}
	src.repo.Forget()
	taken, err := p.config.Quarantine.Take(src.ctx, src.repo, branches, report)
	if err != nil {
		return nil, src.cause(err)
	}
	src.closeView()
	if err := p.checkLFS(src, taken, r); err != nil {
		return nil, errors.Join(err, taken.Close())
	}
	taken.Forget()
	content, size, err := taken.Bundle()
	if err != nil {
		return nil, errors.Join(err, taken.Close())
	}
	failpoint.Hit("outbound/bundle/made")
	res.Workspace, res.Branch = r.Workspace, r.Branch
	res.add(taken)
	b = &Bundle{
		Result: res, Branches: branches, turn: src.turn, Size: size, content: content, expires: time.Now().Add(bundleLife),
	}
	b.close = sync.OnceValue(func() error {
		err := errors.Join(content.Close(), taken.Close())
		b.end()
		src.close()
		return err
	})
	return b, nil
}
