// Command plugin is the volume plugin: it reads the settings, opens the data directory,
// serves the engine, and repairs in the background.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/driver"
	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
)

// fetchUID is the user "git" of the root filesystem, which fetches and owns the stores.
const fetchUID = 65532

// places are the plugin's flags: paths, the fetching uid and timeouts. They differ from
// the defaults only outside of the shipped root filesystem.
type places struct {
	data, socket, git string
	fetchUID          uint
	// Zero means the default of the package that uses it.
	askTimeout, stallTimeout time.Duration
	now                      func() time.Time // nil: time.Now
	// idle disables the janitor's own sweeps.
	idle bool
	// managed is set if an engine runs this process as a managed plugin: with its own
	// root directory and mount namespace, and restarted when it ends. A service of the
	// host has the host's.
	managed bool
}

func (p places) clock() func() time.Time {
	if p.now == nil {
		return time.Now
	}
	return p.now
}

// openForGit makes the data directory accessible to others, because git does not run as
// root, and, in a managed plugin, the root directory, which the engine makes private.
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
	var at places
	flag.StringVar(&at.data, "data", "/data", "the data `directory`")
	flag.StringVar(&at.socket, "socket", "/run/docker/plugins/repos.sock", "the `socket` that the engine calls")
	flag.StringVar(&at.git, "git", "/usr/bin/git", "the git `program`")
	flag.UintVar(&at.fetchUID, "fetch-uid", fetchUID, "the `uid`, and gid, that fetches and owns the stores; ssh wants one of /etc/passwd")
	flag.DurationVar(&at.askTimeout, "ask-timeout", 0, "how long a remote may take to say where a ref stands")
	flag.BoolVar(&at.managed, "managed", false, "the engine runs this as a managed plugin, and starts it anew when it ends")
	flag.DurationVar(&at.stallTimeout, "stall-timeout", 0, "how long a remote may be silent in a fetch")
	flag.Parse()
	log := logrus.New()
	log.SetOutput(os.Stdout) // the engine logs stderr as errors
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, at, log)
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

// run serves until ctx ends. It leaves workspaces mounted: containers go on
// without the plugin, and the next start finds them.
func run(ctx context.Context, at places, log *logrus.Logger) error {
	set, err := loadSettings()
	if err != nil {
		return err
	}
	set.configure(log)
	syscall.Umask(0o022)
	if err := claim(at.data); err != nil {
		return err
	}
	if err := at.openForGit(); err != nil {
		return err
	}
	reserve := disk.NewReserve(filepath.Join(at.data, reserveFile))
	features, err := probe(at.data, reserve)
	if err != nil {
		return err
	}
	if set.context != "" {
		if err := overlay.CheckContext(at.data, set.context); err != nil {
			return fmt.Errorf("setting SELINUX_CONTEXT=%q: %w", set.context, err)
		}
	}
	remap, err := findRemap(at.data)
	if err != nil {
		return err
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return err
	}
	boot := failpoint.Boot(strings.TrimSpace(string(id)))
	var certificates string
	if err := reserve.Retry(func() (err error) { certificates, err = writeCABundle(at.data, set.caBundle); return err }); err != nil {
		return err
	}
	runner, err := git.New(git.Config{
		Program: at.git, UID: uint32(at.fetchUID), GID: uint32(at.fetchUID), Schemes: set.schemes.List(), CABundle: certificates,
		HTTPProxy: set.proxies.http, HTTPSProxy: set.proxies.https, NoProxy: set.proxies.none,
		StallTimeout: at.stallTimeout, Memory: limitMemory(log), WorkTimeout: set.timeouts.work, FetchTimeout: set.timeouts.fetch,
		Scheduler: work.NewScheduler(work.DefaultLimits(runtime.NumCPU())),
	})
	if err != nil {
		return err
	}
	mounts, err := newReach(at, log, reserve)
	if err != nil {
		return err
	}
	log.WithFields(logrus.Fields{
		"volatile": features.Volatile, "metacopy": features.Metacopy, "git": runner.Confinement(),
	}).Info("starting")

	db, state, err := openMeta(at.data, boot, log)
	if err != nil {
		return err
	}
	defer db.Close()
	tr, err := trash.Open(filepath.Join(at.data, "trash"), reportTrash(log))
	if err != nil {
		return err
	}
	tr.Use(reserve)
	credentials, err := openCredentials(at.data, log)
	if err != nil {
		return err
	}
	jan, stock := newJanitor(set.limits, at, tr, log)
	background := work.NewGroup()
	layers := layer.New(layer.Config{
		Root: at.data, Boot: boot, DB: db, Trash: tr, Log: log, Now: at.clock(),
		Background: background.Go,
	}, state)
	clones, err := clone.NewManager(clone.Config{
		Store: layers, Work: background, Git: runner, Credentials: authFrom(credentials), Schemes: set.schemes, AskTimeout: at.askTimeout,
		MakeRoom: jan.MakeRoom, Measured: jan.Nudge,
	}, state)
	if err != nil {
		return err
	}
	defer clones.Close()
	workspaces, err := workspace.NewManager(workspace.Config{
		Root: at.data, DB: db, Trash: tr, Clones: clones, Features: features, Context: set.context, Log: log, Now: at.clock(),
		DiscardTTL: set.limits.DiscardTTL, MaxLeases: set.limits.subjectMaxLeases, Doubt: at.managed,
	}, state)
	if err != nil {
		return err
	}
	volumes, err := driver.New(driver.Config{
		Root: at.data, DB: db, Clones: clones, Workspaces: workspaces, Log: log, Now: at.clock(),
		MountWait: set.mountWait, Defaults: set.defaults, Schemes: set.schemes, SharePrivate: set.sharePrivate, Remap: remap,
		Warnings: warningsOf(jan), Reached: mounts.check,
	}, state)
	if err != nil {
		return err
	}
	clones.Background(tr.Run)
	clones.Background(workspaces.Meter)
	clones.Background(workspaces.Verify)
	clones.Background(trim)
	clones.Background(func(ctx context.Context) {
		sweep(ctx, log, workspaces, clones, volumes, stock)
	})
	if !at.idle {
		clones.Background(jan.Run)
	}
	connected := func() {
		if workspaces.EngineStarted() {
			clones.Background(workspaces.Verify)
		}
	}
	return serve(ctx, log, mounts.lost, map[string]endpoint{
		at.socket: {driver.Handler(volumes), connected},
		filepath.Join(filepath.Dir(at.socket), adminSocket): {Handler: admin.Handler(admin.Config{
			Credentials: credentials, Discards: workspaces, Janitor: jan, Log: log,
		})},
	})
}

// sweep repairs what an earlier run left, while requests are served already. The janitor
// does not wait for the volumes, because one that is being mounted may take long.
func sweep(ctx context.Context, log *logrus.Logger, w *workspace.Manager, c *clone.Manager, d *driver.Driver, stock *stock) {
	err := errors.Join(w.Sweep(ctx), c.SweepAll(ctx))
	stock.open(c, w)
	err = errors.Join(err, d.Sweep(ctx))
	if err != nil && ctx.Err() == nil {
		log.WithError(err).Warn("sweep: not everything could be repaired; the next start tries again")
		return
	}
	log.Debug("sweep: done")
}

func reportTrash(log *logrus.Logger) func(trash.Report) {
	return func(r trash.Report) {
		e := log.WithFields(logrus.Fields{"entry": filepath.Base(r.Entry), "removed": r.Removed})
		switch {
		case errors.Is(r.Err, trash.ErrLater):
			e.WithError(r.Err).Warn("trash: an entry can't be emptied yet; a container may still write to it")
			return
		case r.Err != nil:
			e.WithError(r.Err).WithField("left", r.Left).Warn("trash: not everything could be deleted; the next start tries again")
			return
		}
		e.Debug("trash: deleted")
	}
}
