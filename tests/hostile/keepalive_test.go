package hostile

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/siege"
)

// keepAlives is how many subjects push to remotes that answer with keep-alives.
const keepAlives = 12

// trickling is how many pushes a remote keeps waiting.
var trickling atomic.Int64

// ownRemotes is how many remotes of the victim's subject answer with keep-alives. The subject has a turn
// beside theirs.
const ownRemotes = 2

// pushKeepAlive pushes from each subject to a remote that takes the push and sends keep-alives.
func pushKeepAlive(b *battle) (func(ctx context.Context), error) {
	var subjects []string
	for n := range keepAlives {
		subjects = append(subjects, fmt.Sprint(siege.SubjectPrefix, "push-", n))
	}
	return b.keepAlive(subjects)
}

// pushTimeout is the setting for attacks whose pushes must last until the victim has been measured.
const pushTimeout = "FETCH_TIMEOUT=5m"

// crowd is how many subjects push to such remotes so that all turns are taken, which are crowdTurns, and the rest waits.
const crowd, crowdTurns = 40, 24

// pushCrowd pushes from each of them.
func pushCrowd(b *battle) (func(ctx context.Context), error) {
	var subjects []string
	for n := range crowd {
		subjects = append(subjects, fmt.Sprint(siege.SubjectPrefix, "crowd-", n))
	}
	return b.keepAlive(subjects)
}

// afterFirstTurns returns nil when the pushes that did not get the first turns have one: until then a push of anybody else waits too.
func afterFirstTurns(b *battle) error {
	if ended := b.answered(); ended < crowd-crowdTurns {
		return fmt.Errorf("%d of %d turns have ended for others; %d pushes wait for their remotes; the attacker got %s", ended, crowd-crowdTurns, trickling.Load(), b.said())
	}
	return want(&trickling, crowdTurns/2, "pushes wait")
}

// pushOwnRemotes pushes from volumes of the victim's subject to such remotes.
func pushOwnRemotes(b *battle) (func(ctx context.Context), error) {
	return b.keepAlive(slices.Repeat([]string{b.victim.victim.Subject}, ownRemotes))
}

// keepAlive pushes from a volume of each of the subjects to a remote that takes the push and sends
// keep-alives.
func (b *battle) keepAlive(subjects []string) (func(ctx context.Context), error) {
	var ids []string
	for n, subject := range subjects {
		repo := fmt.Sprintf("keep-alive-%d-%d", time.Now().UnixNano(), n)
		if err := os.Symlink(server.Path("pushed"), server.Path(repo)); err != nil {
			return nil, err
		}
		server.Route(repo, gitserver.On(gitserver.Push, func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil {
					return
				}
				trickling.Add(1)
				defer trickling.Add(-1)
				w.Header().Set("Content-Type", "application/x-git-receive-pack-result")
				gitserver.Trickle(w, r, time.Second, func(int) []byte { return []byte("0005\x01") })
			})
		}))
		dir, id, err := b.workspaceOf(subject, server.URL(repo))
		if err != nil {
			return nil, err
		}
		b.commitIn(dir, fmt.Sprint("mine-", n))
		ids = append(ids, id)
	}
	return b.pushAgain(ids), nil
}

// pushAgain returns an attack that pushes all of these workspaces at a time, and each again when its push has ended.
func (b *battle) pushAgain(ids []string) func(ctx context.Context) {
	return func(ctx context.Context) {
		loop(ctx, len(ids), func(ctx context.Context, i int) {
			b.push(ctx, ids[i], fmt.Sprint("kept-", i))
		})
	}
}
