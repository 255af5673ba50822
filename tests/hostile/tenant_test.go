package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/siege"
)

// answerTime is how long an answer to the tenant may take. It is longer than the plugin's MOUNT_WAIT.
const answerTime = 40 * time.Second

// The names of what a tenant does. It mounts in every contention.
const (
	mounts   = "mount"
	statuses = "status"
	diffs    = "diff"
	archives = "changes.tar"
	pushing  = "push"
	copying  = "checkpoint"
	scraping = "scrape"
)

// allUses are those besides mounts.
var allUses = []string{statuses, diffs, archives, pushing, copying, scraping}

// restEvery is how many rounds there are for one with allUses. More of these would leave too few mounts to measure.
const restEvery = 8

// tenant is the victim of contentions: a subject that mounts a small repository, and has a
// workspace with a new file, a changed one and a commit.
type tenant struct {
	b         *battle
	victim    *siege.Victim
	workspace string // ID
	pushes    int
}

// newTenant mounts the workspace of a tenant.
func newTenant(b *battle, victim *siege.Victim) (*tenant, error) {
	t := &tenant{b: b, victim: victim}
	if err := victim.Prepare(b.plugin.Daemon); err != nil {
		return nil, err
	}
	repo := fmt.Sprint("tenant-", time.Now().UnixNano())
	if _, err := gitserver.Generate(server.Path(repo), gitserver.Spec{Seed: 8, Files: 50, Commits: 3, Changes: 5}); err != nil {
		return nil, err
	}
	dir, id, err := mountWorkspace(b.Context(), b.plugin, "tenant", map[string]string{"repo": server.URL(repo), "subject": victim.Subject})
	if err != nil {
		return nil, err
	}
	t.workspace = id
	b.commitIn(dir, "committed")
	return t, errors.Join(os.WriteFile(filepath.Join(dir, "committed"), []byte("changed\n"), 0o644),
		os.WriteFile(filepath.Join(dir, "added"), make([]byte, 1<<20), 0o644))
}

// useFor is use for a time.
func (t *tenant) useFor(long time.Duration, uses []string) (took map[string]siege.Sample, err error) {
	ctx, cancel := context.WithTimeout(t.b.Context(), long)
	defer cancel()
	return t.use(ctx, uses)
}

// use mounts and does some other uses, one after the other and again and again, until ctx ends and at
// least three times. It returns how long each took. In the second of every restEvery rounds it does the rest
// of allUses too. An error of the plugin ends it.
func (t *tenant) use(ctx context.Context, uses []string) (took map[string]siege.Sample, err error) {
	took = make(map[string]siege.Sample)
	for round := 0; round < 3 || ctx.Err() == nil; round++ {
		mounted, err := t.victim.Mount(t.b.plugin.Daemon)
		if err != nil {
			return took, err
		}
		took[mounts] = append(took[mounts], mounted)
		for _, use := range allUses {
			if round%restEvery != 1 && !slices.Contains(uses, use) {
				continue
			}
			one := time.Now()
			if err := t.once(use); err != nil {
				return took, fmt.Errorf("%s after %v: %w", use, time.Since(one), err)
			}
			took[use] = append(took[use], time.Since(one))
		}
	}
	return took, nil
}

// once does one use.
func (t *tenant) once(use string) error {
	ctx, cancel := context.WithTimeout(t.b.Context(), answerTime)
	defer cancel()
	admin := t.b.plugin.Admin
	switch use {
	case statuses:
		s, err := admin.WorkspaceStatus(ctx, t.workspace, api.Compare{Ignored: true})
		if err == nil && (s.Added != 2 || s.Ahead == nil || *s.Ahead != 1) {
			err = fmt.Errorf("got %+v", s)
		}
		return err
	case diffs:
		return admin.WorkspaceDiff(ctx, t.workspace, api.Compare{Ignored: true}, io.Discard)
	case archives:
		return admin.WorkspaceChanges(ctx, t.workspace, api.Compare{Ignored: true}, io.Discard)
	case pushing:
		t.pushes++
		_, err := admin.Outbound(t.workspace).Push(ctx, api.Push{RemoteBranch: fmt.Sprint("pushed-", t.pushes)}, nil)
		return err
	case copying:
		d, err := admin.Draft(ctx, t.workspace, api.Note{})
		if err == nil {
			_, err = admin.CatchUp(ctx, d.ID)
		}
		if err == nil {
			_, err = admin.Keep(ctx, d.ID)
		}
		if err == nil {
			err = admin.RemoveCheckpoint(ctx, d.ID)
		}
		return err
	case scraping:
		return scrapeOnce(ctx, t.b.metrics)
	}
	return fmt.Errorf("a tenant has no use %q", use)
}

// scrapeOnce reads the metrics at addr over a new connection.
func scrapeOnce(ctx context.Context, addr string) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
