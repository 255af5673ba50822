// Command plugin is the volume plugin: it reads the settings, opens what is on
// disk, answers the engine, and repairs in the background.
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

// fetchUID is the user "git" of the root filesystem, who fetches and owns the
// stores.
const fetchUID = 65532

// places are where the plugin finds and puts things, who fetches, and how patient
// it is with remotes; they differ from the defaults only outside of the root
// filesystem that it is shipped in.
type places struct {
	data, socket, git string
	fetchUID          uint
	// Zero is the default of the package that waits.
	askTimeout, stallTimeout time.Duration
	now                      func() time.Time // nil: the machine's
	// idle has the janitor do nothing but what it is asked for.
	idle bool
	// managed says that an engine runs this process as a managed plugin: it has a root
	// directory and a mount namespace of its own, and the engine starts it anew when it
	// ends. A service of the host has the host's.
	managed bool
}

func (p places) clock() func() time.Time {
	if p.now == nil {
		return time.Now
	}
	return p.now
}

// openForGit lets others into the data directory, because git does not run as root,
// and into the root directory of a managed plugin, which the engine makes private.
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

// awaitDisable waits for the engine's SIGTERM after a start that failed, as with a
// wrong setting. The engine would start a process that ends anew for some ten seconds,
// and an enable after the setting was corrected would meet one of these.
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
	bin, err := trash.Open(filepath.Join(at.data, "trash"), reportTrash(log))
	if err != nil {
		return err
	}
	bin.Use(reserve)
	credentials, err := openCredentials(at.data, log)
	if err != nil {
		return err
	}
	keeper, goods := newJanitor(set.limits, at, bin, log)
	background := work.NewGroup()
	layers := layer.New(layer.Config{
		Root: at.data, Boot: boot, DB: db, Trash: bin, Log: log, Now: at.clock(),
		Background: background.Go,
	}, state)
	clones, err := clone.NewManager(clone.Config{
		Store: layers, Work: background, Git: runner, Credentials: authFrom(credentials), Schemes: set.schemes, AskTimeout: at.askTimeout,
		MakeRoom: keeper.MakeRoom, Measured: keeper.Nudge,
	}, state)
	if err != nil {
		return err
	}
	defer clones.Close()
	workspaces, err := workspace.NewManager(workspace.Config{
		Root: at.data, DB: db, Trash: bin, Clones: clones, Features: features, Context: set.context, Log: log, Now: at.clock(),
		DiscardTTL: set.limits.DiscardTTL, MaxLeases: set.limits.subjectMaxLeases, Doubt: at.managed,
	}, state)
	if err != nil {
		return err
	}
	volumes, err := driver.New(driver.Config{
		Root: at.data, DB: db, Clones: clones, Workspaces: workspaces, Log: log, Now: at.clock(),
		MountWait: set.mountWait, Defaults: set.defaults, Schemes: set.schemes, SharePrivate: set.sharePrivate, Remap: remap,
		Warnings: warningsOf(keeper), Reached: mounts.check,
	}, state)
	if err != nil {
		return err
	}
	clones.Background(bin.Run)
	clones.Background(workspaces.Meter)
	clones.Background(workspaces.Verify)
	clones.Background(trim)
	clones.Background(func(ctx context.Context) {
		sweep(ctx, log, workspaces, clones, volumes, goods)
	})
	if !at.idle {
		clones.Background(keeper.Run)
	}
	taken := func() {
		if workspaces.EngineStarted() {
			clones.Background(workspaces.Verify)
		}
	}
	return serve(ctx, log, mounts.lost, map[string]endpoint{
		at.socket: {driver.Handler(volumes), taken},
		filepath.Join(filepath.Dir(at.socket), adminSocket): {Handler: admin.Handler(admin.Config{
			Credentials: credentials, Discards: workspaces, Janitor: keeper, Log: log,
		})},
	})
}

// sweep repairs what an earlier run left, while requests are answered already. The
// janitor does not wait for the volumes: one that is being mounted may take long.
func sweep(ctx context.Context, log *logrus.Logger, w *workspace.Manager, c *clone.Manager, d *driver.Driver, goods *stock) {
	err := errors.Join(w.Sweep(ctx), c.SweepAll(ctx))
	goods.open(c, w)
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
			e.WithError(r.Err).Warn("trash: an entry does not get empty; a container may hold it and write into it")
			return
		case r.Err != nil:
			e.WithError(r.Err).WithField("left", r.Left).Warn("trash: not everything could be deleted; the next start tries again")
			return
		}
		e.Debug("trash: deleted")
	}
}
