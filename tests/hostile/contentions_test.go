package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/api"
)

// contentions returns the attacks on what the plugin has for all.
func contentions() []contention {
	return []contention{
		{name: "empty-blocks", abuses: "a loose object of 300 MiB that inflates to nothing: statuses and pushes of it in a loop", uses: []string{statuses, pushing},
			begin: emptyBlocks, begun: afterAnswers(3)},
		{name: "push-keep-alive", abuses: "remotes that answer pushes with keep-alives alone: twelve subjects", uses: []string{pushing},
			begin: pushKeepAlive, begun: func(*battle) error { return want(&trickling, keepAlives, "pushes wait") }},
		{name: "push-crowd", abuses: "remotes that answer pushes with keep-alives alone: forty subjects, for longer than their turns", uses: []string{pushing},
			begin: pushCrowd, begun: afterFirstTurns, settings: []string{pushTimeout}, long: 4 * time.Second},
		{name: "push-deltas", abuses: "packs of a container that unpack to 1 TiB, in wide, deep and large chains: pushes, statuses and bundles of four subjects in a loop", uses: []string{statuses, pushing},
			begin: pushDeltas, begun: func(b *battle) error { return b.children(len(deltaBombs)) }},
		{name: "push-own-remotes", abuses: "two remotes of the victim's own subject that answer pushes with keep-alives alone", uses: []string{pushing},
			begin: pushOwnRemotes, begun: func(*battle) error { return want(&trickling, ownRemotes, "pushes wait") }},
		{name: "slow-remotes", abuses: "remotes that take 40 KiB a second of a push: twelve subjects", uses: []string{pushing},
			begin: dripRemotes, begun: func(*battle) error { return want(&trickling, slowRemotes, "remotes take something") }, settings: []string{pushTimeout}},
		{name: "dripping-readers", abuses: "twelve readers of changes.tar and diffs that read 1 KiB a second, of six subjects", uses: []string{statuses, diffs, archives},
			begin: dripReaders, begun: func(*battle) error {
				return want(&dripping, readingSubjects*int64(len(dripReads)), "readers have begun")
			}},
		{name: "slow-readers", abuses: "readers of changes.tar and diffs that read nothing, and a loop of statuses, of eight containers of one subject", uses: []string{statuses, diffs, archives},
			begin: slowReaders, begun: func(b *battle) error { return want(&reading, 4, "readers have begun") }},
		{name: "busy-trash", abuses: "a busy loop on each processor while evicted data is deleted", begin: quietTrash, beside: trashBeside},
		{name: "large-caches", abuses: "workspaces that end with 10,000 new files in each of their caches, which are published", begin: fullCaches, beside: publishBeside},
		{name: "many-caches", abuses: "workspaces of eight subjects that end at once with 4,000 new files in each of their caches, which are published", begin: manyCaches, beside: publishBeside},
		{name: "large-inspections", abuses: "packed-refs of 30 MiB and 20,000 changes with names of 800 bytes, eight inspections at a time of two subjects", uses: []string{statuses, diffs, archives},
			begin: largeInspections, begun: afterAnswers(8)},
		{name: "checkpoints", abuses: "checkpoints in a loop of four containers of two subjects, each with 20,000 changed files, whose names change meanwhile, and others that a third subject leaves unfinished", uses: []string{statuses, diffs, copying},
			begin: largeCheckpoints, begun: afterAnswers(3)},
		{name: "slow-scrapes", abuses: "400 clients at METRICS_ADDR that send a byte a second, and come again", uses: []string{scraping},
			begin: slowScrapes, begun: func(*battle) error { return want(&scrapers, slowClients, "clients have connected") }},
	}
}

// afterAnswers returns a function that returns nil when the attacker got n more answers.
func afterAnswers(n int) func(b *battle) error {
	seen := -1
	return func(b *battle) error {
		now := b.answered()
		if seen < 0 || now < seen {
			seen = now
		}
		if now-seen < n {
			return fmt.Errorf("%d answers", now-seen)
		}
		seen = -1
		return nil
	}
}

// want returns an error while fewer than n are counted.
func want(count *atomic.Int64, n int64, what string) error {
	if now := count.Load(); now < n {
		return fmt.Errorf("%d of %d %s", now, n, what)
	}
	return nil
}

// inspections are the paths of the admin API's answers about a workspace, below its own.
var inspections = []string{statuses, diffs, archives}

// inspect asks for an inspection as cheaply as possible, because the victim is measured in this process.
func (b *battle) inspect(ctx context.Context, id, what string, to io.Writer) {
	err := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://admin/v1/workspaces/%s/%s?ignored=true", id, what), nil)
		if err != nil {
			return err
		}
		resp, err := b.admin.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			text, err := io.ReadAll(resp.Body)
			return fmt.Errorf("%s: %s %w", resp.Status, text, err)
		}
		_, err = io.Copy(to, resp.Body)
		return err
	}()
	b.note(what, err)
}

// push pushes to a branch of the remote.
func (b *battle) push(ctx context.Context, id, branch string) {
	_, err := b.plugin.Admin.Outbound(id).Push(ctx, api.Push{RemoteBranch: branch}, nil)
	b.note(pushing, err)
}

// emptyBlocks plants an object that is costly to inflate, and asks for what needs all objects.
func emptyBlocks(b *battle) (func(ctx context.Context), error) {
	dir, id, err := b.workspace("blocks", b.server)
	if err != nil {
		return nil, err
	}
	b.commitIn(dir, "mine")
	object := filepath.Join(dir, ".git/objects/ab", strings.Repeat("cd", 19))
	if err := os.MkdirAll(filepath.Dir(object), 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(object)
	if err != nil {
		return nil, err
	}
	// The header of zlib, and stored blocks without a byte.
	_, err = f.Write([]byte{0x78, 0x01})
	blocks := bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, 1<<20/5)
	for range 300 {
		if err == nil {
			_, err = f.Write(blocks)
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		loop(ctx, 5, func(ctx context.Context, i int) {
			if i == 0 {
				b.push(ctx, id, "blocks")
				return
			}
			s, err := b.plugin.Admin.WorkspaceStatus(ctx, id, api.Compare{Ignored: true})
			if err == nil && s.AheadError != "" {
				err = errors.New(s.AheadError)
			}
			b.note(statuses, err)
		})
	}, nil
}

// reading is how many slow readers have got something.
var reading atomic.Int64

// stuck is a writer that takes one piece and then nothing until its context ends.
type stuck struct{ ctx context.Context }

func (s stuck) Write(p []byte) (int, error) {
	reading.Add(1)
	defer reading.Add(-1)
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

// slowReaders makes eight containers with much to read, of one subject.
func slowReaders(b *battle) (func(ctx context.Context), error) {
	var ids []string
	for range 8 {
		dir, id, err := b.workspace("readers", b.server)
		if err != nil {
			return nil, err
		}
		if err := writeLarge(dir); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return func(ctx context.Context) {
		loop(ctx, 3*len(ids), func(ctx context.Context, i int) {
			switch id := ids[i/3]; i % 3 {
			case 0:
				b.inspect(ctx, id, diffs, stuck{ctx})
			case 1:
				b.inspect(ctx, id, archives, stuck{ctx})
			default:
				b.inspect(ctx, id, statuses, io.Discard)
			}
		})
	}, nil
}

// writeLarge writes what takes a slow reader long.
func writeLarge(dir string) error {
	for n := range 4 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("large-", n)), bytes.Repeat([]byte("0123456\n"), 500_000), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// largeInspections makes workspaces whose inspections need the most memory, of two subjects.
func largeInspections(b *battle) (func(ctx context.Context), error) {
	const changed = 20_000
	var ids []string
	for n := range 2 {
		subject := fmt.Sprint("large-", n)
		dir, id, err := b.workspace(subject, b.server)
		if err != nil {
			return nil, err
		}
		if err := packRefs(filepath.Join(dir, ".git")); err != nil {
			return nil, err
		}
		ids = append(ids, id)
		if dir, id, err = b.workspace(subject, b.server); err != nil {
			return nil, err
		}
		below := filepath.Join(dir, strings.Repeat("d", 200), strings.Repeat("e", 200), strings.Repeat("f", 200))
		if err := os.MkdirAll(below, 0o755); err != nil {
			return nil, err
		}
		for i := range changed {
			// Half of the name's bytes are no UTF-8, which JSON writes with six.
			if err := os.WriteFile(fmt.Sprintf("%s/%0100d%s", below, i, strings.Repeat("\xff", 100)), nil, 0o644); err != nil {
				return nil, err
			}
		}
		ids = append(ids, id)
	}
	return func(ctx context.Context) {
		loop(ctx, 4*len(ids), func(ctx context.Context, i int) {
			for _, what := range inspections {
				b.inspect(ctx, ids[i%len(ids)], what, io.Discard)
			}
		})
	}, nil
}

// packRefs writes packed-refs of 30 MiB: as many branches as are allowed, and tags.
func packRefs(dir string) error {
	var refs bytes.Buffer
	for i := 0; refs.Len() < 30<<20; i++ {
		kind := "heads"
		if i > 9_000 {
			kind = "tags"
		}
		fmt.Fprintf(&refs, "%040x refs/%s/%s%06d\n", i+1, kind, strings.Repeat("x", 40), i)
	}
	return os.WriteFile(filepath.Join(dir, "packed-refs"), refs.Bytes(), 0o644)
}

// slowClients is how many clients hold connections to METRICS_ADDR.
const slowClients = 400

// scrapers is how many of them have connected, since the attack began.
var scrapers atomic.Int64

// slowScrapes connects clients that send a header slowly.
func slowScrapes(b *battle) (func(ctx context.Context), error) {
	return func(ctx context.Context) {
		scrapers.Store(0)
		loop(ctx, slowClients, func(ctx context.Context, _ int) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", b.metrics)
			if err != nil {
				return
			}
			defer c.Close()
			defer context.AfterFunc(ctx, func() { c.Close() })()
			scrapers.Add(1)
			go func() { _, _ = io.Copy(io.Discard, c); c.Close() }() // the plugin closed it
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for _, err := io.WriteString(c, "GET /metrics HT"); err == nil; _, err = io.WriteString(c, "T") {
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}, nil
}
