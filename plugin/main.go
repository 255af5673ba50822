// Command plugin is the volume plugin: it reads the settings, opens what is on
// disk, answers the engine, and repairs in the background.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/driver"
	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
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
}

func (p places) clock() func() time.Time {
	if p.now == nil {
		return time.Now
	}
	return p.now
}

func main() {
	var at places
	flag.StringVar(&at.data, "data", "/data", "the data `directory`")
	flag.StringVar(&at.socket, "socket", "/run/docker/plugins/repos.sock", "the `socket` that the engine calls")
	flag.StringVar(&at.git, "git", "/usr/bin/git", "the git `program`")
	flag.UintVar(&at.fetchUID, "fetch-uid", fetchUID, "the `uid`, and gid, that fetches and owns the stores; ssh wants one of /etc/passwd")
	flag.DurationVar(&at.askTimeout, "ask-timeout", 0, "how long a remote may take to say where a ref stands")
	flag.DurationVar(&at.stallTimeout, "stall-timeout", 0, "how long a remote may be silent in a fetch")
	flag.Parse()
	log := logrus.New()
	log.SetOutput(os.Stdout) // the engine logs stderr as errors
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, at, log)
	stop()
	if err != nil {
		log.WithError(err).Error("stopped")
		os.Exit(1)
	}
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
	// The engine makes a plugin's / private to root; git runs as somebody else.
	for _, dir := range []string{"/", at.data} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	reserve := disk.NewReserve(filepath.Join(at.data, reserveFile))
	features, err := probe(at.data, reserve)
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
		StallTimeout: at.stallTimeout,
	})
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
	clones, err := clone.NewManager(clone.Config{
		Root: at.data, Boot: boot, DB: db, Git: runner, Trash: bin, Log: log, Now: at.clock(),
		Credentials: authFrom(credentials), Schemes: set.schemes, AskTimeout: at.askTimeout,
		MakeRoom: keeper.MakeRoom, Measured: keeper.Nudge,
	}, state)
	if err != nil {
		return err
	}
	defer clones.Close()
	workspaces, err := workspace.NewManager(workspace.Config{
		Root: at.data, DB: db, Trash: bin, Clones: clones, Features: features, Log: log, Now: at.clock(),
		DiscardTTL: set.limits.DiscardTTL, MaxLeases: set.limits.subjectMaxLeases,
	}, state)
	if err != nil {
		return err
	}
	volumes, err := driver.New(driver.Config{
		Root: at.data, DB: db, Clones: clones, Workspaces: workspaces, Log: log, Now: at.clock(),
		MountWait: set.mountWait, Defaults: set.defaults, Schemes: set.schemes,
		Warnings: warningsOf(keeper),
	}, state)
	if err != nil {
		return err
	}
	clones.Background(bin.Run)
	clones.Background(workspaces.Meter)
	clones.Background(func(ctx context.Context) {
		sweep(ctx, log, workspaces, clones, volumes)
		goods.open(clones, workspaces)
	})
	if !at.idle {
		clones.Background(keeper.Run)
	}
	return serve(ctx, log, map[string]http.Handler{
		at.socket: driver.Handler(volumes),
		filepath.Join(filepath.Dir(at.socket), adminSocket): admin.Handler(admin.Config{
			Credentials: credentials, Discards: workspaces, Janitor: keeper, Log: log,
		}),
	})
}

// adminSocket lies beside the engine's, where root on the host can reach it.
const adminSocket = "admin.sock"

// sweep repairs what an earlier run left, while requests are answered already.
func sweep(ctx context.Context, log *logrus.Logger, w *workspace.Manager, c *clone.Manager, d *driver.Driver) {
	err := errors.Join(w.Sweep(ctx), c.SweepAll(ctx), d.Sweep(ctx))
	if err != nil && ctx.Err() == nil {
		log.WithError(err).Warn("sweep: not everything could be repaired; the next start tries again")
		return
	}
	log.Debug("sweep: done")
}

// serve answers on the sockets until ctx ends, and then lets the answers that are
// under way be written.
func serve(ctx context.Context, log *logrus.Logger, handlers map[string]http.Handler) error {
	failed := make(chan error, len(handlers))
	var servers []*http.Server
	defer func() {
		for _, s := range servers {
			s.Close()
		}
	}()
	for socket, h := range handlers {
		l, err := listen(socket)
		if err != nil {
			return err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		servers = append(servers, s)
		go func() { failed <- fmt.Errorf("serve %s: %w", socket, s.Serve(l)) }()
	}
	log.WithField("sockets", slices.Sorted(maps.Keys(handlers))).Info("listening")
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping: workspaces stay mounted")
	// The engine waits 10 s after TERM.
	wait, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, s := range servers {
		if err := s.Shutdown(wait); err != nil {
			log.WithError(err).Warn("stopping: requests were cut off")
		}
	}
	return nil
}

// listen makes a socket that only root can connect to. One that is there is of a
// process that died, for the database is ours.
func listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	// To connect takes the right to write, which our umask gave to nobody else.
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func reportTrash(log *logrus.Logger) func(trash.Report) {
	return func(r trash.Report) {
		e := log.WithFields(logrus.Fields{"entry": filepath.Base(r.Entry), "removed": r.Removed})
		if r.Err != nil {
			e.WithError(r.Err).WithField("left", r.Left).Warn("trash: not everything could be deleted; the next start tries again")
			return
		}
		e.Debug("trash: deleted")
	}
}

// openMeta opens the database. One that is damaged is set aside; then, and when
// there is none, what it should say is read from the manifests: never an empty
// start over data that is there.
func openMeta(data, boot string, log *logrus.Logger) (*meta.DB, meta.State, error) {
	path := filepath.Join(data, "meta.db")
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		if err := rebuild(data, boot, log); err != nil {
			return nil, meta.State{}, err
		}
	}
	db, state, err := meta.Open(path)
	if !errors.Is(err, meta.ErrDamaged) {
		return db, state, err
	}
	aside, asideErr := meta.SetAside(path, time.Now())
	if asideErr != nil {
		return nil, meta.State{}, errors.Join(err, asideErr)
	}
	log.WithError(err).Errorf("the database is damaged: it is set aside as %s and rebuilt from the manifests", aside)
	failpoint.Hit("plugin/rebuild/aside")
	if err := rebuild(data, boot, log); err != nil {
		return nil, meta.State{}, err
	}
	return meta.Open(path)
}

// rebuild makes a database from the manifests, under a temporary name until it
// is whole: an empty or a half one would be believed by the next start.
func rebuild(data, boot string, log *logrus.Logger) error {
	temp := filepath.Join(data, durable.TempPrefix+"meta.db")
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	db, _, err := meta.Open(temp)
	if err != nil {
		return err
	}
	failpoint.Hit("plugin/rebuild/empty")
	if err := errors.Join(fill(db, data, boot, log), db.Close()); err != nil {
		return err
	}
	failpoint.Hit("plugin/rebuild/filled")
	err = durable.Rename(temp, filepath.Join(data, "meta.db"))
	failpoint.Hit("plugin/rebuild/renamed")
	return err
}

// fill fills an empty database from the manifests.
func fill(db *meta.DB, data, boot string, log *logrus.Logger) error {
	volumes, err := driver.Rebuild(data)
	if err != nil {
		log.WithError(err).Error("rebuild: volumes whose manifest can't be read are not listed")
	}
	clones, err := clone.Rebuild(data)
	if err != nil {
		return err
	}
	workspaces, trees, gitLayers, err := workspace.Rebuild(data, boot)
	if err != nil {
		return err
	}
	return db.Update(func(tx *meta.Tx) error {
		var errs []error
		for _, v := range volumes {
			errs = append(errs, tx.PutVolume(v))
		}
		for _, c := range clones {
			errs = append(errs, tx.PutClone(c))
		}
		for _, w := range workspaces {
			errs = append(errs, tx.PutWorkspace(w))
		}
		for _, l := range trees {
			errs = append(errs, tx.PutTree(l))
		}
		for _, l := range gitLayers {
			errs = append(errs, tx.PutGitLayer(l))
		}
		return errors.Join(errs...)
	})
}
