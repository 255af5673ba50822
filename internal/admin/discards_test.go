package admin

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/operator"
)

// heap holds discards, and records the calls of EvictDiscard.
type heap struct {
	list []workspace.Discard
	fail error
	gone []string
}

func (h *heap) Discards() []workspace.Discard { return h.list }

func (h *heap) EvictDiscard(id string) error {
	h.gone = append(h.gone, id)
	return h.fail
}

func TestDiscards(t *testing.T) {
	ctx := t.Context()
	log, logged := logger()
	h := &heap{}
	c := operator.Dial(serve(t, Handler(Config{Discards: h, Log: log})))
	if list, err := c.Discards(ctx); err != nil || list == nil || len(list) != 0 {
		t.Errorf("got %v, %v; want an empty list", list, err)
	}
	at := time.Date(2024, 5, 1, 12, 0, 0, 0, time.UTC)
	changed, bytes := int64(3), int64(4096)
	h.list = []workspace.Discard{
		{ID: "1", Volume: "v", Subject: "s", Repo: "https://h/x", Ref: "refs/heads/main", Commit: "c", Clone: "s/1", EndedAt: at, ExpiresAt: at.Add(time.Hour)},
		{ID: "2", EndedAt: at, ExpiresAt: at, Changed: &changed, Size: meta.Measured{Size: disk.Size{Bytes: bytes, Inodes: 5}, At: at}},
	}
	want := []operator.Discard{
		{ID: "1", Volume: "v", Subject: "s", Repo: "https://h/x", Ref: "refs/heads/main", Commit: "c", EndedAt: at, ExpiresAt: at.Add(time.Hour)},
		{ID: "2", EndedAt: at, ExpiresAt: at, Changed: &changed, Bytes: &bytes, MeasuredAt: &at},
	}
	if list, err := c.Discards(ctx); err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v, %v\nwant %+v", list, err, want)
	}
	if err := c.RemoveDiscard(ctx, "1"); err != nil || logged.String() == "" {
		t.Errorf("%v; logged %q", err, logged)
	}
	for _, tt := range []struct {
		fail   error
		status int
	}{
		{&workspace.NoDiscardError{ID: "2"}, 404},
		{&workspace.InUseError{Reason: "it is being restored"}, 409},
		{errors.New("the disk is gone"), 500},
	} {
		h.fail = tt.fail
		var refused *operator.Error
		if err := c.RemoveDiscard(ctx, "2"); !errors.As(err, &refused) || refused.Status != tt.status || refused.Message != tt.fail.Error() {
			t.Errorf("got %v, want %d %v", err, tt.status, tt.fail)
		}
	}
	if want := []string{"1", "2", "2", "2"}; !reflect.DeepEqual(h.gone, want) {
		t.Errorf("asked to remove %q, want %q", h.gone, want)
	}
}
