package admin

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
)

func TestCheckpoints(t *testing.T) {
	ctx := t.Context()
	log, logged := logger()
	h := &heap{}
	c := client(t, Config{Workspaces: h, Log: log})
	if list, err := c.Checkpoints(ctx, api.Filter{}); err != nil || list == nil || len(list) != 0 {
		t.Errorf("got %v, %v; want an empty list", list, err)
	}
	changed, bytes := int64(3), int64(4096)
	h.list = []workspace.Checkpoint{
		{ID: "2", Clone: "s/2", EndedAt: at, ExpiresAt: at, Changed: &changed, Size: meta.Measured{Size: bytes4k(1), At: at}},
		{ID: "1", Volume: "v", Subject: "s", Repo: "https://h/x", Ref: "refs/heads/main", Commit: "c", Clone: "s/1", EndedAt: at, ExpiresAt: at.Add(time.Hour)},
	}
	want := []api.Checkpoint{
		{ID: "1", Volume: "v", Subject: "s", Repo: "https://h/x", Clone: "s/1", Ref: "refs/heads/main", Commit: "c", Made: "end", EndedAt: at, ExpiresAt: at.Add(time.Hour)},
		{ID: "2", Clone: "s/2", Made: "end", EndedAt: at, ExpiresAt: at, Changed: &changed, Bytes: &bytes, MeasuredAt: &at},
	}
	if list, err := c.Checkpoints(ctx, api.Filter{}); err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v, %v\nwant %+v", list, err, want)
	}
	if d, err := c.Checkpoint(ctx, "2"); err != nil || !reflect.DeepEqual(d, want[1]) {
		t.Errorf("got %+v, %v", d, err)
	}
	if err := c.RemoveCheckpoint(ctx, "1"); err != nil || logged.String() == "" {
		t.Errorf("%v; logged %q", err, logged)
	}
	for _, tt := range []struct {
		fail   error
		status int
	}{
		{&workspace.NoCheckpointError{ID: "2"}, 404},
		{&workspace.InUseError{Reason: "it is being looked at"}, 409},
		{errors.New("the disk is gone"), 500},
	} {
		h.fail = tt.fail
		var refused *api.Error
		if err := c.RemoveCheckpoint(ctx, "2"); !errors.As(err, &refused) || refused.Status != tt.status || refused.Message != tt.fail.Error() {
			t.Errorf("got %v, want %d %v", err, tt.status, tt.fail)
		}
	}
	if want := []string{"1", "2", "2", "2"}; !reflect.DeepEqual(h.gone, want) {
		t.Errorf("asked to remove %q, want %q", h.gone, want)
	}
}
