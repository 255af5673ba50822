package admin

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/janitor"
)

// TestPrune checks what the janitor is asked for, and what is answered.
func TestPrune(t *testing.T) {
	config := populated()
	k := config.Janitor.(*keeper)
	c := client(t, config)
	key := clone.Key("team a", options("team a", "https://h/x").Repo)
	r, err := c.Prune(t.Context(), api.Prune{Checkpoints: true, Unused: time.Hour, Subject: "team a", Repo: "https://H:443/x.git"})
	if err != nil || len(r.Evicted) != 1 || r.Evicted[0].Clone != key || r.Frees.Bytes != 4096 || r.Held != 1 || r.Failed != 2 {
		t.Errorf("got %+v, %v", r, err)
	}
	sel := k.pruned
	if k.dry || !sel.Checkpoints || sel.Unused != time.Hour || !sel.Keeps(key) || sel.Keeps("other/1") {
		t.Errorf("asked for %+v, dry=%t", sel, k.dry)
	}
	for _, of := range []struct {
		janitor.Clone
		want bool
	}{
		{janitor.Clone{Key: key, Subject: "team a"}, true}, {janitor.Clone{Key: key, Subject: "team b"}, false},
		{janitor.Clone{Key: "team%20a/0", Subject: "team a"}, false},
	} {
		if got := sel.Selects(of.Clone); got != of.want {
			t.Errorf("%+v is selected: %t", of.Clone, got)
		}
	}
	if _, err := c.Prune(t.Context(), api.Prune{DryRun: true, All: true}); err != nil || !k.dry || k.pruned.Keeps != nil || !k.pruned.Selects(janitor.Clone{}) {
		t.Errorf("asked for %+v, dry=%t, %v", k.pruned, k.dry, err)
	}
	var refused *api.Error
	for _, wrong := range []api.Prune{{Repo: "nonsense"}} {
		if _, err := c.Prune(t.Context(), wrong); !errors.As(err, &refused) || refused.Status != http.StatusBadRequest {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
	k.fail = errors.New("the disk is gone")
	if _, err := c.Prune(t.Context(), api.Prune{}); !errors.As(err, &refused) || refused.Status != http.StatusInternalServerError {
		t.Errorf("got %v", err)
	}
}
