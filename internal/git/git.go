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
	inherited bool // this process is a Command's child, with its slot and its limits
	uid, gid  uint32
	schemes   string
	caBundle  string
	proxies   []string // environment
	tls       *tls.Config
	proxy     func(*http.Request) (*url.URL, error)
	stall     time.Duration

	scheduler                 *work.Scheduler
	workTimeout, fetchTimeout time.Duration
	memory                    int64 // limit for a child, in bytes
	workCPU, fetchCPU         time.Duration
}

// Config configures New.
type Config struct {
	// Program is the path of git; empty means the one found in /usr/bin or /bin.
	Program string
	// Root, if not empty, is the root directory of git, in which Program is looked up and
	// where all paths that git gets must mean the same: for tests with the git of the
	// plugin's root filesystem.
	Root string
	// Self is the program that a Command with a Judge executes; empty means this one,
	// /proc/self/exe. It must exist in Root.
	Self string
	// UID and GID fetch and own the stores; not root in production.
	UID, GID uint32
	// Schemes are the transports that git may use, such as "https".
	Schemes []string
	// CABundle is a PEM file with all trusted certificates; empty means the system's.
	CABundle string
	// Proxies, as in the environment variables of these names, without passwords.
	HTTPProxy, HTTPSProxy, NoProxy string
	// StallTimeout ends a fetch after the remote has sent nothing, not even a keep-alive,
	// for so long. Zero means five minutes: a server without keep-alives is silent for
	// long while it packs a large repository.
	StallTimeout time.Duration
	// Scheduler decides when heavy commands may run; nil: at once.
	Scheduler *work.Scheduler
	// WorkTimeout limits each piece of local work, and FetchTimeout a fetch with all its
	// tries, counted from when it has its slot. Zero means ten minutes, and two hours.
	WorkTimeout, FetchTimeout time.Duration
	// Memory limits the private memory of each process that runs for a repository, in
	// bytes; zero means 4 GiB.
	Memory int64
	// WorkCPU and FetchCPU limit the processor time of such a process in local work and
	// in a fetch, rounded up to seconds; zero means WorkTimeout, and FetchTimeout but at
	// most 30 minutes.
	WorkCPU, FetchCPU time.Duration
}

const (
	defaultProgram = "/usr/bin/git"
	programDir     = "/usr/lib/git-core" // of the default program, in Debian
)

const defaultStallTimeout = 5 * time.Minute

// New checks that the program exists, and how the kernel can confine it.
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

// Inherit returns a Git for a process that is the confined child of a Command: its own
// children stay in its process group, and have the same rights.
func Inherit(program string) *Git {
	return &Git{program: program, sandbox: sandbox.Inherited(), inherited: true}
}

// HTTP returns the settings for HTTP clients: certificates (nil means the system's), the
// proxy for a request, and how long a remote may send nothing.
func (g *Git) HTTP() (*tls.Config, func(*http.Request) (*url.URL, error), time.Duration) {
	return g.tls, g.proxy, g.stall
}

// Program returns the path of git.
func (g *Git) Program() string { return g.program }

// Confinement describes for the log how children are confined.
func (g *Git) Confinement() string { return g.sandbox.String() }

// Owner returns the uid and gid that fetch and own the stores.
func (g *Git) Owner() (uid, gid int) { return int(g.uid), int(g.gid) }
