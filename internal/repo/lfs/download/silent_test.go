package download

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestLFSServerIsSilent checks that the request ends if the server stops at any step, or
// sends a little data for ever, and that the error says why.
func TestLFSServerIsSilent(t *testing.T) {
	t.Parallel()
	const never, often, soon = time.Hour, 5 * time.Millisecond, 300 * time.Millisecond
	for _, tt := range []struct {
		name   string
		step   lfsserver.Step
		pause  time.Duration
		size   int64 // in the pointer, if it is not the object's
		limits limits
		total  time.Duration // of all requests, as FETCH_TIMEOUT limits them
		want   string
		kind   giterror.Kind
	}{
		{"no headers", lfsserver.Asked, 0, 0, limits{soon, never}, time.Minute, "nothing came for 300ms", giterror.KindTimeout},
		{"batch", lfsserver.Batch, 0, 0, limits{soon, never}, time.Minute, "nothing came for 300ms", giterror.KindTimeout},
		{"download", lfsserver.Download, 0, 0, limits{soon, never}, time.Minute, "nothing came for 300ms", giterror.KindTimeout},
		{"verify", lfsserver.Verify, 0, 0, limits{soon, never}, time.Minute, "nothing came for 300ms", giterror.KindTimeout},
		{"batch that drips", lfsserver.Batch, often, 0, limits{never, soon}, time.Minute, "not complete after 300ms", giterror.KindOther},
		{"download that drips", lfsserver.Download, often, 1 << 40, limits{never, never}, soon, "it took longer than FETCH_TIMEOUT=300ms", giterror.KindLimit},
		{"more than the object", lfsserver.Verify, often, 0, limits{never, never}, time.Minute, "another content", giterror.KindOther},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 3)
			t.Parallel()
			s := testgit.Serve(t)
			objects := new(lfsserver.Server)
			p := objects.Put("content\n")
			s.Route("app", objects.Serve)
			objects.Hang(tt.step, tt.pause)
			size := max(tt.size, int64(p.Size))
			f := Job{
				Endpoint: s.URL("app.git/info/lfs"), Rule: guard.Rule{Own: hostPortOf(t, s)}, Storage: t.TempDir(),
				Objects: []lfs.Pointer{{Path: "f", OID: p.OID, Size: size}},
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), tt.total, &work.LimitError{Setting: "FETCH_TIMEOUT", Limit: tt.total})
			defer cancel()
			client, temp := newClient(newGit(t), f), t.TempDir()
			client.limits = tt.limits
			err := client.fetch(ctx, temp)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), s.URL("app")) || giterror.KindOf(err) != tt.kind {
				t.Errorf("%v, of kind %q, want %q of kind %q", err, giterror.KindOf(err), tt.want, tt.kind)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}
