package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/testdisk"
)

// TestWorkWithoutWaitingClient checks that work without a waiting client continues if a limit on size or
// age is exceeded. If MIN_FREE is exceeded, the work is cancelled and its clone evicted.
func TestWorkWithoutWaitingClient(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	const evicted = "min_free clone slow"
	for _, tt := range []struct {
		name     string
		settings []string
		want     bool
	}{
		{"MAX_SIZE and TTL", []string{"MAX_SIZE=1B", "TTL=1h", "CHECKPOINT_TTL=0"}, false},
		{"MIN_FREE", []string{"MIN_FREE=90%", "CHECKPOINT_TTL=0"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			base, _ := smallDisk(t, testdisk.Filesystems[0].Make)
			b := &budget{server: remote(t), data: base, idle: true}
			b.start(t, tt.settings...)
			b.use("slow", false)
			b.create("hungry", map[string]string{"repo": b.server.URL("sample"), "subject": "hungry", "cache": "off"})
			dir := b.mount("hungry", "1")
			b.settled()
			if err := fillUp(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := gitserver.Commit(b.server.Path("sample"), "main", gitserver.Change{Path: "new", Content: "new"}); err != nil {
				t.Fatal(err)
			}
			asked := make(chan struct{}, 100)
			silent := gitserver.StallAfter(10, nil)
			b.server.Wrap(gitserver.On(gitserver.Fetch, func(next http.Handler) http.Handler {
				next = silent(next)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					asked <- struct{}{}
					next.ServeHTTP(w, r)
				})
			}))
			ctx, giveUp := context.WithCancel(t.Context())
			mounted := make(chan error, 1)
			go func() {
				_, err := b.Mount(ctx, "slow", "2")
				mounted <- err
			}()
			<-asked
			held := func(want janitor.Hold) {
				t.Helper()
				b.poll(func() error {
					list, err := b.admin.Clones(t.Context(), api.Filter{})
					i := slices.IndexFunc(list, func(c api.Clone) bool { return c.Subject == "slow" })
					if err != nil || i < 0 || list[i].Held != want.String() {
						return fmt.Errorf("the clone is not held as %v: %+v, %v", want, list, err)
					}
					return nil
				})
			}
			held(janitor.Pending)
			if got := b.sweep(); slices.Contains(got, evicted) {
				t.Errorf("evicted while a mount waits: %q", got)
			}
			giveUp()
			if err := <-mounted; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			held(janitor.Working)
			b.pass(3 * time.Hour)
			if got := b.sweep(); slices.Contains(got, evicted) != tt.want || !tt.want && slices.ContainsFunc(got, func(s string) bool {
				return s == "ttl clone slow" || s == "max_size clone slow"
			}) {
				t.Errorf("evicted after the mount gave up: %q; contains %q: want %v", got, evicted, tt.want)
			}
			if !tt.want {
				held(janitor.Working)
			}
		})
	}
}
