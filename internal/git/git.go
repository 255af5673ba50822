package git

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"github.com/helmdeck/repos/internal/sandbox"
	"github.com/helmdeck/repos/internal/work"
)

// Git runs git commands. It is immutable after New and safe for concurrent use.
type Git struct {
	program   string
	root      string
	self      string
	sandbox   *sandbox.Sandbox
	inherited bool // from the process that started this one, with its turn and its time
	uid, gid  uint32
	schemes   string
	caBundle  string
	proxies   []string // environment
	tls       *tls.Config
	proxy     func(*http.Request) (*url.URL, error)
	stall     time.Duration

	scheduler                 *work.Scheduler
	workTimeout, fetchTimeout time.Duration
	memory                    int64 // bytes that a child may have
	workCPU, fetchCPU         time.Duration
}

// Config says how git is run.
type Config struct {
	// Program is the path of git; empty means the one found in /usr/bin or /bin.
	Program string
	// Root, if it is not empty, is the directory that git has as its root, in which
	// Program is found, and where all paths that it is given have to mean the same:
	// for tests with the git of the plugin's own root filesystem.
	Root string
	// Self is the program that a Command with a Judge executes; empty means this one,
	// /proc/self/exe. With Root it has to be there.
	Self string
	// UID and GID are who fetches and owns the stores; not root in production.
	UID, GID uint32
	// Schemes are the transports that git may use, such as "https".
	Schemes []string
	// CABundle is a PEM file with all certificates that servers are checked
	// against; empty means the system's.
	CABundle string
	// Proxies, as the variables of the same names; they hold no password.
	HTTPProxy, HTTPSProxy, NoProxy string
	// StallTimeout is how long a remote may send nothing at all in a fetch, not
	// even that it is still at work, before the fetch is given up. Zero is five
	// minutes: a server that packs a large repository says nothing for long, if it
	// does not know how to keep a connection alive.
	StallTimeout time.Duration
	// Scheduler says when heavy commands may run; nil: at once.
	Scheduler *work.Scheduler
	// WorkTimeout is how long one piece of local work may take, once it runs, and
	// FetchTimeout how long a fetch may. Zero is ten minutes, and two hours.
	WorkTimeout, FetchTimeout time.Duration
	// Memory is how many bytes of its own a process may have that runs for a
	// repository; zero is 4 GiB.
	Memory int64
	// WorkCPU and FetchCPU are how much processor time such a process may take in
	// local work and in a fetch; zero is as long as the work may take, and 30 minutes
	// at most for a fetch. Seconds are rounded up.
	WorkCPU, FetchCPU time.Duration
}

const (
	defaultProgram = "/usr/bin/git"
	programDir     = "/usr/lib/git-core" // of the default program, in Debian
)

const defaultStallTimeout = 5 * time.Minute

// New returns a Git after it made sure that the program is there, and probed
// what the kernel offers to confine it.
func New(c Config) (*Git, error) {
	if c.Program == "" {
		c.Program = defaultProgram
	}
	if _, err := exec.LookPath(filepath.Join(c.Root, c.Program)); err != nil {
		return nil, fmt.Errorf("git is not installed: %w", err)
	}
	box, err := sandbox.New(c.Root)
	if err != nil {
		return nil, err
	}
	certificates, err := loadCA(c.CABundle)
	if err != nil {
		return nil, err
	}
	proxy := (&httpproxy.Config{HTTPProxy: c.HTTPProxy, HTTPSProxy: c.HTTPSProxy, NoProxy: c.NoProxy}).ProxyFunc()
	g := &Git{
		program: c.Program, root: c.Root, self: cmp.Or(c.Self, ownProgram), uid: c.UID, gid: c.GID,
		schemes: strings.Join(c.Schemes, ":"), sandbox: box,
		caBundle: c.CABundle, tls: certificates, stall: cmp.Or(c.StallTimeout, defaultStallTimeout),
		proxy:     func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		scheduler: c.Scheduler, workTimeout: cmp.Or(c.WorkTimeout, defaultWorkTimeout), fetchTimeout: cmp.Or(c.FetchTimeout, defaultFetchTimeout),
	}
	g.memory = cmp.Or(c.Memory, defaultMemory)
	g.workCPU = cmp.Or(c.WorkCPU, g.workTimeout)
	g.fetchCPU = cmp.Or(c.FetchCPU, min(defaultFetchCPU, g.fetchTimeout))
	for _, v := range []struct{ name, value string }{
		{"http_proxy", c.HTTPProxy}, {"https_proxy", c.HTTPSProxy}, {"no_proxy", c.NoProxy},
	} {
		if v.value != "" {
			g.proxies = append(g.proxies, v.name+"="+v.value)
		}
	}
	return g, nil
}

// Inherit returns a Git for a process that is the child of a Command, and confined as
// such: its own children are in its process group, and have no more rights.
func Inherit(program string) *Git {
	return &Git{program: program, sandbox: sandbox.Inherited(), inherited: true}
}

// HTTP returns what a client of HTTP is to use: certificates, of which nil are the
// system's, the proxy for a request, and how long a remote may send nothing.
func (g *Git) HTTP() (*tls.Config, func(*http.Request) (*url.URL, error), time.Duration) {
	return g.tls, g.proxy, g.stall
}

// Program returns the path of git.
func (g *Git) Program() string { return g.program }

// Confinement says in a few words how children are confined, for the log.
func (g *Git) Confinement() string { return g.sandbox.String() }

// Owner returns the uid and gid that fetch, and to which stores belong.
func (g *Git) Owner() (uid, gid int) { return int(g.uid), int(g.gid) }
