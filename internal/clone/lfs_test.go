package clone

import (
	"net/http"
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
			lfs := new(lfsserver.Server)
			_, files, err := lfs.Commit(w.Server.Path("r"), "main", map[string]string{"model.bin": "content\n"})
			if err != nil {
				t.Fatal(err)
			}
			w.Server.Route("r", lfs.Serve)
			s := w.spec("ref", "main")
			// The limit is also that of a fetch, so the commit is fetched before.
			lfs.Fail(files["model.bin"].OID, http.StatusNotFound)
			if _, err := w.clone(s).Prepare(t.Context(), s); err == nil {
				t.Fatal("prepared without the LFS object")
			}
			lfs.Fail(files["model.bin"].OID, 0)
			w.git.StallTimeout = 300 * time.Millisecond
			w.restart("boot 1")
			w.Server.Reset()
			lfs.Hang(step, 0)
			c := w.clone(s)
			_, err = c.Prepare(t.Context(), s)
			if giterror.KindOf(err) != giterror.KindTimeout || !strings.Contains(err.Error(), "nothing came for 300ms") {
				t.Errorf("error %v, want that nothing came", err)
			}
			w.idle(c)
			if err := w.m.EvictClone(t.Context(), c.Key, work.StopNothing); err != nil {
				t.Errorf("the clone can't be evicted: %v", err)
			}
			if got := w.Server.Stats("r").Fetches; got > 0 {
				t.Errorf("%d fetches under the limit", got)
			}
			lfs.Hang(step, -1)
			w.git.StallTimeout = 0
			w.restart("boot 1")
			w.prepare(s).Release()
		})
	}
}
