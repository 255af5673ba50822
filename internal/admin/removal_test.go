package admin

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/verbs/removal"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/obstacle"
	"github.com/helmdeck/repos/janitor"
)

// TestRemovals checks what evictions, fresh starts and forced releases ask for, their results,
// and that an answer says what is in the way.
func TestRemovals(t *testing.T) {
	ctx := t.Context()
	log, _ := logger()
	m := &remover{freed: removal.Freed{Size: bytes4k(2), Clones: []string{"s/1"}, Removed: []string{"d"}}}
	c := client(t, Config{Remover: m, Releaser: m, Log: log})
	calls := map[string]func() (api.Freed, error){
		"evict team%20a/0123":        func() (api.Freed, error) { return c.EvictClone(ctx, "team%20a/0123") },
		"fresh s/1 false":            func() (api.Freed, error) { return c.FreshClone(ctx, "s/1", false) },
		"fresh s/1 true":             func() (api.Freed, error) { return c.FreshClone(ctx, "s/1", true) },
		"fresh subject a/b\n% false": func() (api.Freed, error) { return c.FreshSubject(ctx, "a/b\n%", false) },
		"release v a/b":              func() (api.Freed, error) { return api.Freed{}, c.ReleaseLease(ctx, "v", "a/b") },
	}
	for want, call := range calls {
		m.asked, m.fail = nil, nil
		freed, err := call()
		if err != nil || !slices.Equal(m.asked, []string{want}) {
			t.Errorf("asked for %q, %v, want %q", m.asked, err, want)
		}
		if !strings.HasPrefix(want, "release") && !reflect.DeepEqual(freed, api.Freed{Freed: 8192, Clones: []string{"s/1"}, Removed: []string{"d"}}) {
			t.Errorf("%s: %+v", want, freed)
		}
		for _, tt := range []struct {
			fail   error
			status int
		}{
			{fmt.Errorf("%w %q", janitor.ErrNoClone, "s/1"), 404},
			{fmt.Errorf("%w %q", removal.ErrNone, "s/1"), 404},
			{&workspace.NoLeaseError{Volume: "v", Holder: "h"}, 404},
			{fmt.Errorf("evict clone: %w: a container has it", janitor.ErrHeld), 409},
			{&workspace.InUseError{Reason: "a container has it"}, 409},
			{errors.New("the disk is gone"), 500},
		} {
			m.fail = tt.fail
			var refused *api.Error
			if _, err := call(); !errors.As(err, &refused) || refused.Status != tt.status || refused.Message != tt.fail.Error() {
				t.Errorf("%s: got %v, want %d", want, err, tt.status)
			}
		}
		blocked := &obstacle.Error{List: []obstacle.Obstacle{
			{Kind: "lease", ID: "v/h", Volume: "v", Clone: "s/1", Text: "mounted"}, {Kind: "checkpoint", ID: "d", Text: "restorable", Forced: true},
		}}
		m.fail = fmt.Errorf("1 of 2 were removed: %w", blocked)
		var refused *api.Error
		if _, err := call(); !errors.As(err, &refused) || refused.Status != 409 || !reflect.DeepEqual(refused.Obstacles, []api.Obstacle{
			{Kind: "lease", ID: "v/h", Volume: "v", Clone: "s/1", Text: "mounted"}, {Kind: "checkpoint", ID: "d", Text: "restorable", Forced: true},
		}) {
			t.Errorf("%s: got %#v", want, err)
		}
	}
}

// TestLimits checks that limits of a subject take the place of the settings, that a subject
// with limits is listed, and that the janitor looks at it.
func TestLimits(t *testing.T) {
	ctx := t.Context()
	config := populated()
	log, logged := logger()
	config.Log = log
	k, q := config.Janitor.(*keeper), config.Limits.(*quotas)
	c := client(t, config)
	limits := func(name string) api.Limits {
		t.Helper()
		s, err := c.Subject(ctx, name)
		if err != nil {
			t.Error(err)
		}
		return s.Limits
	}
	if got, want := limits("team a"), (api.Limits{MaxSize: 5, MaxLeases: 6}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	own := api.OwnLimits{MaxSize: new(int64(0))}
	for _, name := range []string{"team a", "unknown/b"} {
		if err := c.SetLimits(ctx, name, own); err != nil {
			t.Fatal(err)
		}
		if got, want := limits(name), (api.Limits{MaxLeases: 6, Own: own}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	if list, err := c.Subjects(ctx, api.Filter{}); err != nil || len(list) != 2 {
		t.Errorf("%d subjects, %v", len(list), err)
	}
	if k.nudges != 2 || !strings.Contains(logged.String(), "max_size=0") || !strings.Contains(logged.String(), "subject=unknown/b") {
		t.Errorf("%d nudges, logged %s", k.nudges, logged)
	}
	q.fail = errors.New("the disk is gone")
	var refused *api.Error
	if err := c.SetLimits(ctx, "s", own); !errors.As(err, &refused) || refused.Status != 500 || k.nudges != 2 {
		t.Errorf("got %v after %d nudges, want 500", err, k.nudges)
	}
}
