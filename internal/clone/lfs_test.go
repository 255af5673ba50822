package clone

import (
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/short"
)

// If an LFS server sends headers and then nothing, the mount fails, and then the clone can
// be evicted.
func TestSilentLFSServer(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]lfsserver.Step{"batch": lfsserver.Batch, "download": lfsserver.Download, "verify": lfsserver.Verify} {
		t.Run(name, func(t *testing.T) {
			short.OneOf(t, 2)
			t.Parallel()
			w := newWorld(t, "")
			w.data.Close()
			w.git.StallTimeout = 300 * time.Millisecond
			w.start("boot 1")
			lfs := new(lfsserver.Server)
			if _, _, err := lfs.Commit(w.Server.Path("r"), "main", map[string]string{"model.bin": "content\n"}); err != nil {
				t.Fatal(err)
			}
			w.Server.Route("r", lfs.Serve)
			lfs.Hang(step, 0)
			s := w.spec("ref", "main")
			c := w.clone(s)
			_, err := c.Prepare(t.Context(), s)
			if giterror.KindOf(err) != giterror.KindTimeout || !strings.Contains(err.Error(), "nothing came for 300ms") {
				t.Errorf("error %v, want that nothing came", err)
			}
			w.idle(c)
			if err := w.m.EvictClone(t.Context(), c.Key, work.StopNothing); err != nil {
				t.Errorf("the clone can't be evicted: %v", err)
			}
			lfs.Hang(step, -1)
			w.prepare(s).Release()
		})
	}
}
