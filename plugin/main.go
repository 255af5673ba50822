package main

import (
	"context"
	"errors"
	"flag"
	stdlog "log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/admin/journal"
	"github.com/helmdeck/repos/internal/repo/checkout"
)

// version is that of the program. The Makefile sets it when it links a release.
var version = "dev"

// fetchUID is the user "git" of the root filesystem, which fetches and owns the stores.
const fetchUID = 65532

// places are the plugin's flags: paths, the fetching uid and timeouts. They differ from
// the defaults only outside of the shipped root filesystem.
type places struct {
	data, socket, git string
	fetchUID          uint
	// Zero means the default of the package that uses it.
	stallTimeout, startWait time.Duration
	// askWait is how long a status waits for the remote. Zero means askTime.
	askWait time.Duration
	now     func() time.Time // nil: time.Now
	// idle disables the janitor's own sweeps.
	idle bool
	// managed is set if an engine runs this process as a managed plugin: with its own
	// root directory and mount namespace, and restarted when it ends. A service of the
	// host uses the root directory and mount namespace of the host.
	managed bool
}

func (p places) clock() func() time.Time {
	if p.now == nil {
		return time.Now
	}
	return p.now
}

// openForGit makes the data directory accessible to others, because git does not run as root.
// In a managed plugin it does the same for the root directory, which the engine makes private.
func (p places) openForGit() error {
	if p.managed {
		if err := os.Chmod("/", 0o755); err != nil {
			return err
		}
	}
	return os.Chmod(p.data, 0o755)
}

func main() {
	checkout.ServeJob()
	yieldToOrdinary()
	var at places
	flag.StringVar(&at.data, "data", "/data", "the data `directory`")
	flag.StringVar(&at.socket, "socket", "/run/docker/plugins/repos.sock", "the `socket` that the engine calls; empty for none, if CSI_ENDPOINT is set")
	flag.StringVar(&at.git, "git", "/usr/bin/git", "the git `program`")
	flag.UintVar(&at.fetchUID, "fetch-uid", fetchUID, "the `uid`, and gid, that fetches and owns the stores; ssh wants one of /etc/passwd")
	flag.BoolVar(&at.managed, "managed", false, "the engine runs this as a managed plugin, and starts it anew when it ends")
	flag.DurationVar(&at.stallTimeout, "stall-timeout", 0, "how long a remote may be silent in a fetch")
	flag.DurationVar(&at.startWait, "start-wait", 0, "how long after a mount its lease can't be released by force")
	flag.Parse()
	log := logrus.New()
	log.SetOutput(os.Stdout) // the engine logs stderr as errors
	log.SetFormatter(textLines)
	stdlog.SetFlags(0)
	stdlog.SetOutput(&libraryLog{out: log.WriterLevel(logrus.WarnLevel)}) // net/http, for example
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := dropCapabilities()
	if err == nil {
		err = run(ctx, at, os.Getenv, log)
	}
	if err != nil {
		log.WithError(err).Error("stopped")
		if at.managed && !errors.Is(err, errAnew) {
			awaitDisable(ctx, log)
		}
	}
	stop()
	if err != nil {
		os.Exit(1)
	}
}

// awaitDisable waits for the engine's SIGTERM after a failed start, for example with a
// wrong setting. If the process ended, the engine would restart it for some ten seconds,
// and an enable after the setting was corrected would collide with a restart.
func awaitDisable(ctx context.Context, log *logrus.Logger) {
	if ctx.Err() == nil {
		log.Info("waiting for the engine to disable the plugin; correct what is wrong, then enable it")
	}
	<-ctx.Done()
}

// run serves until ctx ends, with the settings that getenv returns. It leaves workspaces
// mounted: containers continue without the plugin, and the next start finds them.
func run(ctx context.Context, at places, getenv func(name string) string, log *logrus.Logger) error {
	set, err := loadSettings(getenv)
	if err != nil {
		return err
	}
	set.configure(log)
	last := journal.New()
	log.AddHook(last) // after the one that adds fields
	if at.socket == "" && set.csi.endpoint == "" {
		return errors.New("nobody could ask for a volume: give the flag -socket a path for an engine, or set CSI_ENDPOINT for kubelet")
	}
	handed, err := inherit()
	if err != nil {
		return err
	}
	if at.data, err = filepath.Abs(at.data); err != nil { // as mounts are named, and paths compared
		return err
	}
	unlock, err := lock(ctx, at.data)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := prepare(at, set, log)
	if err != nil {
		return err
	}
	db, state, err := openMeta(at.data, m.boot, log)
	if err != nil {
		return err
	}
	defer db.Close()
	m.audit, m.journal = openAudit(m, log), last
	defer m.audit.Close()
	p, err := build(m, db, state, log)
	if err != nil {
		return err
	}
	scrapes, err := newScrapes(set.metrics.addr, p.metrics, log)
	if err != nil {
		return err
	}
	defer scrapes.close()
	p.start()
	p.work.Go(m.names.Run)
	defer p.projects.Close()
	defer p.work.Close()
	defer p.handout.Close()
	connected := func() {
		leases, news := p.workspaces.InheritLeases()
		p.docker.EngineStarted(leases)
		if news {
			p.work.Go(p.workspaces.Verify)
		}
	}
	return serve(ctx, log, m.mounts.lost, p.endpoints(m, connected), handed, scrapes)
}
