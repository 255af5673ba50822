package git

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/net/http/httpproxy"

	"github.com/helmdeck/repos/internal/git/githttp"
	"github.com/helmdeck/repos/internal/git/sandbox"
	"github.com/helmdeck/repos/internal/work"
)

// Git runs git commands. It is immutable after New and safe for concurrent use.
type Git struct {
	config    Config // with defaults instead of zero values
	sandbox   *sandbox.Sandbox
	inherited bool     // this process is a Command's child, with its slot and its limits
	proxies   []string // environment
	tls       *tls.Config
	proxy     func(*http.Request) (*url.URL, error)
	http      *githttp.Client
}

// Config configures New.
type Config struct {
	// Program is the path of git; empty means the one found in /usr/bin or /bin.
	Program string
	// Root, if not empty, is the root directory that git runs in: for tests with the git of
	// the plugin's root filesystem. Program is a path below it. All other paths must mean
	// the same inside and outside.
	Root string
	// Self is the program that a Command with a Judge executes; empty means this one,
	// /proc/self/exe. It must exist in Root.
	Self string
	// UID and GID are the user and group that fetch and own the stores; never root in
	// production.
	UID, GID uint32
	// Schemes are the transports that git may use, such as "https".
	Schemes []string
	// CABundle is a PEM file with all trusted certificates; empty means the system's.
	CABundle string
	// HTTPProxy, HTTPSProxy and NoProxy mean the same as the environment variables of these
	// names. They contain no passwords.
	HTTPProxy, HTTPSProxy, NoProxy string
	// StallTimeout ends a fetch when the remote has sent nothing, not even a keep-alive,
	// for that long. Zero means five minutes, because a server without keep-alives is
	// silent while it packs a large repository.
	StallTimeout time.Duration
	// Scheduler decides when heavy commands may run. If it is nil, they run at once.
	Scheduler *work.Scheduler
	// WorkTimeout limits each piece of local work, and FetchTimeout a fetch with all its
	// tries. The time counts from when the work has its slot. Zero means ten minutes for
	// WorkTimeout and two hours for FetchTimeout.
	WorkTimeout, FetchTimeout time.Duration
	// Memory limits the private memory of each process that runs for a repository, in
	// bytes; zero means 4 GiB.
	Memory int64
	// WorkCPU and FetchCPU limit the processor time of such a process in local work and
	// in a fetch, rounded up to seconds. Zero means WorkTimeout for WorkCPU, and the smaller
	// of FetchTimeout and an hour for FetchCPU.
	WorkCPU, FetchCPU time.Duration
	// PostBuffer, in bytes, is the size of the largest request that git sends over HTTP with a
	// length, after a server refused one without: git needs as much memory then. Zero means
	// that it is not sent again.
	PostBuffer int64
	// SizeFactor multiplies the limits on the size of a repository.
	SizeFactor SizeFactor
	// Go runs work in the background. If it is nil, connections that a server closes are
	// not opened again.
	Go func(f func(ctx context.Context))
	// Log gets a debug line for each command, and for each question of this process. If it
	// is nil, there are none.
	Log *logrus.Logger
	// Observe, if not nil, is called after each command, question and fetch. It must not
	// block, and may be called concurrently.
	Observe func(Event)
}

const (
	defaultProgram = "/usr/bin/git"
	programDir     = "/usr/lib/git-core" // of the default program, in Debian
)

const defaultStallTimeout = 5 * time.Minute

// New returns a Git. It checks that the program exists, and how the kernel can confine it.
func New(c Config) (*Git, error) {
	c.Program, c.Self = cmp.Or(c.Program, defaultProgram), cmp.Or(c.Self, ownProgram)
	c.StallTimeout = cmp.Or(c.StallTimeout, defaultStallTimeout)
	c.WorkTimeout, c.FetchTimeout = cmp.Or(c.WorkTimeout, defaultWorkTimeout), cmp.Or(c.FetchTimeout, defaultFetchTimeout)
	c.WorkCPU, c.FetchCPU = cmp.Or(c.WorkCPU, c.WorkTimeout), cmp.Or(c.FetchCPU, min(defaultFetchCPU, c.FetchTimeout))
	c.Memory = cmp.Or(c.Memory, defaultMemory)
	if _, err := exec.LookPath(filepath.Join(c.Root, c.Program)); err != nil {
		return nil, fmt.Errorf("git is not installed: %w", err)
	}
	box, err := sandbox.New(c.Root)
	if err != nil {
		return nil, err
	}
	certificates, err := githttp.LoadCA(c.CABundle)
	if err != nil {
		return nil, err
	}
	proxy := (&httpproxy.Config{HTTPProxy: c.HTTPProxy, HTTPSProxy: c.HTTPSProxy, NoProxy: c.NoProxy}).ProxyFunc()
	g := &Git{
		config: c, sandbox: box, tls: certificates,
		proxy: func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
	}
	g.http = githttp.New(githttp.Config{TLS: g.tls, Proxy: g.proxy, MaxAnswer: g.maxAnswer(), Go: c.Go})
	for _, v := range []struct{ name, value string }{
		{"http_proxy", c.HTTPProxy}, {"https_proxy", c.HTTPSProxy}, {"no_proxy", c.NoProxy},
	} {
		if v.value != "" {
			g.proxies = append(g.proxies, v.name+"="+v.value)
		}
	}
	return g, nil
}

// Inherit returns a Git for a process that is the confined child of a Command: its own
// children stay in its process group, and have the same rights.
func Inherit(program string) *Git {
	return &Git{config: Config{Program: program}, sandbox: sandbox.Inherited(), inherited: true}
}

// HTTP returns the settings for HTTP clients: certificates (nil means the system's), the
// proxy for a request, and how long a remote may send nothing.
func (g *Git) HTTP() (*tls.Config, func(*http.Request) (*url.URL, error), time.Duration) {
	return g.tls, g.proxy, g.config.StallTimeout
}

// report logs that an operation ended. The URL is one for errors, without secrets.
func (g *Git) report(ctx context.Context, by, op, url string, began time.Time, err error) {
	if g.config.Log == nil || !g.config.Log.IsLevelEnabled(logrus.DebugLevel) {
		return
	}
	e := g.config.Log.WithContext(ctx).WithFields(logrus.Fields{"op": op, "took": time.Since(began).String()})
	if url != "" {
		e = e.WithField("url", url)
	}
	if err != nil {
		e = e.WithError(err)
	}
	e.Debug(by)
}

// Program returns the path of git.
func (g *Git) Program() string { return g.config.Program }

// Confinement describes for the log how children are confined.
func (g *Git) Confinement() string { return g.sandbox.String() }

// Names is the directory where git's children find the files to which a managed plugin's
// /etc/resolv.conf and /etc/hosts lead.
const Names = sandbox.Names

// Landlock returns the version of the kernel's Landlock, which confines git; 0 without.
func (g *Git) Landlock() int { return g.sandbox.Landlock() }

// Owner returns the uid and gid that fetch and own the stores.
func (g *Git) Owner() (uid, gid int) { return int(g.config.UID), int(g.config.GID) }
