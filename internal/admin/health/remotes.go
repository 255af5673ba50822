package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/volume"
)

// Remote is a repository that the plugin uses.
type Remote struct {
	URL volume.URL
	// Via is the name of the credential that it is read with; empty without one.
	Via string
	// Lent is set if users may bring a credential with each request, which the plugin has then
	// only for the request: without a stored one the remote may refuse this question alone.
	Lent bool
	// Err says why no credential can be chosen.
	Err error
	Ask func(ctx context.Context) error
}

// place names the scheme and the host.
func (r Remote) place() string {
	scheme, rest, _ := strings.Cut(r.URL.Normalized(), "://")
	authority, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + authority[strings.LastIndex(authority, "@")+1:]
}

const (
	// mostRemotes bounds the hosts of one call. The answer says how many were left out.
	mostRemotes = 64
	// remotesAtOnce bounds the questions of all calls together.
	remotesAtOnce = 8
	// remoteTimeout is how long a host may take. A mount asks for longer, but a host that is
	// slower than this is in trouble.
	remoteTimeout = 10 * time.Second
)

// Asker asks remotes. It is safe for concurrent use.
type Asker struct {
	schemes volume.Schemes
	slots   chan struct{}
	timeout time.Duration
}

// NewAsker returns an Asker for the allowed schemes. A host that takes longer than timeout counts
// as silent; zero means ten seconds.
func NewAsker(s volume.Schemes, timeout time.Duration) *Asker {
	return &Asker{schemes: s, slots: make(chan struct{}, remotesAtOnce), timeout: cmp.Or(timeout, remoteTimeout)}
}

// Check asks each host once for each credential that repositories there are read with, the
// first of these repositories in the list. It returns when all have answered or timed out, or
// when ctx ends.
func (a *Asker) Check(ctx context.Context, list []Remote) []Check {
	type key struct{ place, via, err string }
	first, count := []Remote{}, map[key]int{}
	keyOf := func(r Remote) key { return key{r.place(), r.Via, fmt.Sprint(r.Err)} }
	for _, r := range list {
		if count[keyOf(r)]++; count[keyOf(r)] == 1 {
			first = append(first, r)
		}
	}
	more := len(first) - mostRemotes
	first = first[:min(len(first), mostRemotes)]
	checks := make([]Check, len(first))
	var asking sync.WaitGroup
	for i, r := range first {
		asking.Go(func() { checks[i] = a.check(ctx, r, count[keyOf(r)]) })
	}
	asking.Wait()
	switch {
	case more > 0:
		checks = append(checks, ok("remote", "%d more were not asked", more).warn("correct those above, and ask again"))
	case len(checks) == 0:
		checks = append(checks, ok("remote", "no repository is in use"))
	}
	return checks
}

func (a *Asker) check(ctx context.Context, r Remote, repositories int) Check {
	c := Check{Name: "remote", Target: r.place(), Status: OK}
	switch {
	case !a.schemes.Allows(r.URL.Scheme()):
		c.Text = fmt.Sprintf("the setting ALLOW_SCHEMES allows only %s, and %s is in use", strings.Join(a.schemes.List(), ", "), r.URL)
		return c.fail("set ALLOW_SCHEMES=" + allowing(a.schemes, r.URL.Scheme()))
	case r.Err != nil:
		c.Text = r.Err.Error()
		return c.fail("store the credential with docker repos credentials put, or make the volume again without its name")
	}
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		c.Text = "it was not asked: " + context.Cause(ctx).Error()
		return c.warn("ask again")
	}
	began := time.Now()
	asked, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	switch err := r.Ask(asked); {
	case err == nil:
	case r.Lent && r.Via == "" && giterror.KindOf(err) == giterror.KindAuth:
		c.Text = fmt.Sprintf("it wants a credential for %s, and none is stored", r.URL)
		return c.warn("do nothing if the pods bring it in a secret (nodePublishSecretRef); otherwise store it with docker repos credentials put")
	default:
		return c.failed(ctx, err)
	}
	how := "without a credential"
	if r.Via != "" {
		how = fmt.Sprintf("the credential %q is accepted", r.Via)
	}
	if r.URL.Scheme() == "https" {
		how += ", its certificate is trusted"
	}
	c.Text = fmt.Sprintf("it answers in %v, %s (asked for %s, one of %d in use)", time.Since(began).Round(time.Millisecond), how, r.URL, repositories)
	return c
}

// failed describes the error of a question.
func (c Check) failed(ctx context.Context, err error) Check {
	if ctx.Err() != nil { // the caller of the API has gone, or the plugin stops
		c.Text = "it was not asked to the end: " + context.Cause(ctx).Error()
		return c.warn("ask again")
	}
	c.Text = err.Error()
	known, ok := errors.AsType[*giterror.Error](err)
	if !ok {
		return c.fail("see the plugin's log: docker repos logs")
	}
	remedy := known.Advice()
	c.Text = strings.TrimSuffix(c.Text, ": "+remedy)
	if known.Kind == giterror.KindNotFound {
		return c.warn(remedy) // the host answers
	}
	if remedy == "" {
		remedy = "see the plugin's log (docker repos logs), and try again"
	}
	return c.fail(remedy)
}
