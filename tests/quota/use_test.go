//go:build quota

package quota

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/wait"
)

// await waits until check has no objection.
func (w *world) await(what string, check func() error) {
	w.t.Helper()
	if err := wait.Until(w.t, check); err != nil {
		w.t.Errorf("%s: %v", what, err)
	}
}

// TestUse: whoever asks learns how full a workspace is, and that it has reached 90 and 100 %.
func TestUse(t *testing.T) {
	w := newWorld(t, "SWEEP_INTERVAL=0")
	w.create("v", "small", "size=50m", "inodes=10000")
	c := w.mount("v", "1")
	shown := func(bytes int64, warnings string, events ...string) {
		t.Helper()
		w.await(warnings, func() error {
			v, err := w.Get(context.Background(), "v")
			if err != nil {
				return wait.Final(err)
			}
			s := v.Status
			if used, _ := s["workspace_bytes"].(float64); s["limit_bytes"] != 50.0*mib || s["limit_inodes"] != 10000.0 || used < 0.99*float64(bytes) || used > float64(bytes+mib) || s["workspace_inodes"] == 0.0 {
				return fmt.Errorf("status: %v", s)
			}
			if text := fmt.Sprint(s["warnings"]); !strings.Contains(text, warnings) || warnings == "" && text != "[]" {
				return fmt.Errorf("warnings: %s", text)
			}
			list, err := w.Admin.Events(context.Background())
			if err != nil {
				return wait.Final(err)
			}
			var got []string
			for _, e := range list {
				got = append(got, e.Type+" "+e.Reason)
			}
			if fmt.Sprint(got) != fmt.Sprint(events) {
				return fmt.Errorf("events %q, want %q", got, events)
			}
			return nil
		})
	}
	const warning = "warning workspace_limit"
	c.must("dd if=/dev/zero of=a bs=1024k count=30")
	shown(30*mib, "")
	c.must("dd if=/dev/zero of=b bs=1024k count=16")
	shown(46*mib, "has filled 92% of the limit", warning)
	w.ends(c, "dd if=/dev/zero of=c bs=64k count=1000")
	shown(50*mib, "has filled 100% of the limit", warning, warning)
	list, err := w.Admin.Workspaces(context.Background(), api.Filter{})
	w.must(err)
	if len(list) != 1 || list[0].Limit != (api.Size{Bytes: 50 * mib, Inodes: 10000}) || list[0].Size.Bytes < 49*mib {
		t.Errorf("workspaces: %+v", list)
	}
	c.must("rm a b c")
	_, err = w.Admin.Sweep(context.Background())
	w.must(err)
	w.await("less", func() error {
		if _, err := w.Admin.Sweep(context.Background()); err != nil {
			return wait.Final(err)
		}
		stats, err := w.Admin.Stats(context.Background())
		if err != nil || len(stats.Findings) > 0 {
			return fmt.Errorf("findings %+v: %w", stats.Findings, err)
		}
		return nil
	})
	shown(0, "", warning, warning, "cleared workspace_limit")
	w.end("v", "1")
	w.clear()
}

// TestSettings: the settings say what a volume without a limit gets, and what one may ask for.
func TestSettings(t *testing.T) {
	w := newWorld(t, "WORKSPACE_SIZE=20MiB", "WORKSPACE_MAX_SIZE=30MiB", "WORKSPACE_MAX_INODES=500", "SUBJECT_MAX_SIZE=60MiB")
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	given := map[string]string{"repo": w.server.URL("small"), "size": "31m"}
	refused(w.Create(context.Background(), "more", given), "WORKSPACE_MAX_SIZE")
	w.create("default", "small", "mode=shared")
	w.create("most", "small", "size=30m", "mode=keep")
	c := w.mount("default", "1")
	w.ends(c, "dd if=/dev/zero of=f bs=64k count=1000")
	w.full(c, 20*mib)
	c.must("rm f")
	w.ends(c, "while : >f$i; do i=$((i+1)); done; exit 1")
	w.mount("default", "2") // counts once
	w.mount("most", "1")
	w.create("third", "small", "size=11m")
	_, err := w.Mount(context.Background(), "third", "1")
	refused(err, `may hold 50m, those of the volumes "default" (20m), "most" (30m)`)
	w.unmount("most", "1") // it is kept
	_, err = w.Mount(context.Background(), "third", "1")
	refused(err, "does not fit into what the subject may hold, which is 60m by the setting SUBJECT_MAX_SIZE")
	w.restart(true)
	_, err = w.Mount(context.Background(), "third", "1")
	refused(err, "may hold 50m")
	w.mount("most", "2") // whatever the sum is
	w.must(errors.Join(w.Unmount(context.Background(), "default", "1"), w.Unmount(context.Background(), "default", "2")))
	w.mount("third", "1")
	w.end("third", "1")
	w.end("most", "2")
	w.must(w.Remove(context.Background(), "default"))
	w.clear()
}
