package health

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/volume"
)

func remote(t *testing.T, url, via string, ask func(context.Context) error) Remote {
	t.Helper()
	u, err := volume.ParseURL(url, volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	return Remote{URL: u, Via: via, Ask: ask}
}

func answers(context.Context) error { return nil }

func TestAsker(t *testing.T) {
	a := NewAsker(volume.Schemes{}, 0)
	lost := remote(t, "https://lost.example/r", "", answers)
	lost.Err = errors.New(`there is no credential "x"`)
	var asked atomic.Int32
	count := func(context.Context) error { asked.Add(1); return nil }
	fails := func(err error) func(context.Context) error {
		return func(context.Context) error { return err }
	}
	refuses := fails(&giterror.Error{Op: "ask", Kind: giterror.KindAuth, Remedy: "store it"})
	lent := remote(t, "https://lent.example/r", "", refuses)
	lent.Lent = true
	wrong := remote(t, "https://wrong.example/r", "mine", refuses)
	wrong.Lent = true
	checks := a.Check(t.Context(), []Remote{
		remote(t, "https://h.example/one", "", count), remote(t, "https://H.example:443/two", "", count),
		remote(t, "https://h.example/three", "mine", count), remote(t, "http://h.example:8080/one", "", count),
		remote(t, "ssh://git@h.example/one", "", count),
		lost,
		remote(t, "https://refused.example/r", "", refuses),
		lent,
		wrong,
		remote(t, "https://gone.example/r", "", fails(&giterror.Error{Op: "ask", Kind: giterror.KindNotFound})),
		remote(t, "https://odd.example/r", "", fails(errors.New("odd"))),
	})
	want := []struct {
		target string
		status Status
		text   string
		remedy string
	}{
		{"https://h.example", OK, "without a credential, its certificate is trusted (asked for https://h.example/one, one of 2 in use)", ""},
		{"https://h.example", OK, `the credential "mine" is accepted`, ""},
		{"http://h.example:8080", OK, "without a credential (asked", ""},
		{"ssh://h.example", Failed, "allows only https, http, and ssh://git@h.example/one is in use", "ALLOW_SCHEMES=ssh"},
		{"https://lost.example", Failed, `there is no credential "x"`, "credentials put"},
		{"https://refused.example", Failed, "authentication failed", "store it"},
		{"https://lent.example", Warning, "it wants a credential for https://lent.example/r, and none is stored", "nodePublishSecretRef"},
		{"https://wrong.example", Failed, "authentication failed", "store it"},
		{"https://gone.example", Warning, "repository not found", "check the spelling"},
		{"https://odd.example", Failed, "odd", "log"},
	}
	if len(checks) != len(want) {
		t.Fatalf("got %d checks, want %d: %+v", len(checks), len(want), checks)
	}
	for i, w := range want {
		c := checks[i]
		if c.Name != "remote" || c.Target != w.target || c.Status != w.status || !strings.Contains(c.Text, w.text) || !strings.Contains(c.Remedy, w.remedy) ||
			c.Remedy != "" && strings.Contains(c.Text, c.Remedy) {
			t.Errorf("got %+v\nwant %+v", c, w)
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("%d questions, want one for each host and credential: 3", n)
	}
	if checks := a.Check(t.Context(), nil); len(checks) != 1 || checks[0].Status != OK {
		t.Errorf("without remotes: got %+v", checks)
	}
}

// TestAskerIsBounded checks how many are asked at a time, of all callers together, how many in
// all, and how long that takes if none answers.
func TestAskerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAsker(volume.Schemes{}, 0)
		var now, most atomic.Int32
		var list []Remote
		for i := range 2 * mostRemotes {
			list = append(list, remote(t, fmt.Sprintf("https://h%d.example/r", i), "", func(ctx context.Context) error {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				defer now.Add(-1)
				<-ctx.Done()
				return giterror.NoAnswer("https://h", context.Cause(ctx))
			}))
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		other := make(chan []Check)
		go func() { other <- a.Check(ctx, list) }()
		checks := a.Check(ctx, list)
		others := <-other
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		if most.Load() != remotesAtOnce {
			t.Errorf("%d at once, want %d", most.Load(), remotesAtOnce)
		}
		if len(checks) != mostRemotes+1 || !strings.Contains(checks[mostRemotes].Text, "64 more were not asked") {
			t.Errorf("got %d checks, the last is %+v", len(checks), checks[len(checks)-1])
		}
		var timedOut, left int
		for _, c := range append(others, checks...) { // one may get all the places
			if strings.Contains(c.Text, "timeout") && c.Status == Failed {
				timedOut++
			}
			if strings.Contains(c.Text, "not asked") && c.Status == Warning {
				left++
			}
		}
		if timedOut == 0 || left == 0 || timedOut+left != len(checks)+len(others) {
			t.Errorf("%d timed out, %d were not asked, of %d and %d", timedOut, left, len(checks), len(others))
		}
	})
}
