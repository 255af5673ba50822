package git

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Command is one run of git.
type Command struct {
	Op       string   // the operation, for errors
	Args     []string // of git
	Env      []string // added to the basic environment
	Dir      string
	UID, GID uint32
	Read     []string // directories that it may read
	Write    []string // directories that it may change
	Stdin    string
	// Input, if set, is read in place of Stdin, so that what is large needs no memory. Its reads must
	// not block, and the command can be run once.
	Input io.Reader
	// Stderr, if set, is called with each line of the standard error.
	Stderr func(line string)
	// A Heavy command waits for a slot, and a Large one also for the end of other large
	// commands. Neither is for commands that talk to a remote.
	Heavy, Large bool
	// If Judge is set, the command executes Config.Self instead of git. Judge gets the
	// stdout, of at most MaxOutput bytes (a limit times the SizeFactor), and the error of the process; both are
	// untrusted. It returns the text that classifies a failure, as git's stderr does, and
	// the error.
	Judge     func(stdout []byte, err error) (words string, _ error)
	MaxOutput int
	// Talk, if set, reads the command's stdout, of any size, while the command runs. It
	// must read to the end, unless it returns an error: that ends the command. If Dialog
	// is set, it writes to the command's stdin, which it must close. Its context ends with
	// the command's time, and with that of Run: a Talk that computes looks at it, because
	// the end of the command alone does not end what neither reads nor writes.
	Talk   func(ctx context.Context, stdin io.WriteCloser, stdout io.Reader) error
	Dialog bool

	url    string     // for errors
	config []string   // keys and values, which are passed in the environment
	files  []*os.File // passed as descriptors from 3
	aside  *aside     // what ssh says; nil without ssh
	// silence, if set, limits how long the child may write nothing to stderr.
	silence time.Duration
	// postBuffer, if set, makes git send a request of up to that size with a length, over HTTP.
	// Without, it sends one of more than 1 MiB in chunks.
	postBuffer int64
	// cleanup, if set, is called after a failure, before another try.
	cleanup func() error
	// question is set for a command that takes milliseconds and that a Mount waits for:
	// it runs at the plugin's own priority, with lower limits.
	question bool
	// remote is set by runAt: the command may talk to a remote.
	remote bool
	// fetches is set for a command that receives a pack and prints its progress. The caller
	// has a slot for it.
	fetches bool
	// oneThread is set for another try of such a command, after its threads took too much memory.
	oneThread bool
}

// Config.Self is executed by descriptor, because its path may have been replaced, or may
// be in a directory that only root can enter.
const (
	ownProgram     = "/proc/self/exe"
	SelfDescriptor = 3 // it stays open in the child
	selfProgram    = "/proc/self/fd/3"
)

const (
	// maxStdout bounds what Run returns. Larger outputs, such as a remote's answer, are
	// read as a stream.
	maxStdout = 8 << 20
	// maxStderr is how much of the end of stderr is kept for the error.
	maxStderr = 8 << 10
	// maxSaid bounds all of stderr, which is read line by line: a remote's messages are in it, and may have no end.
	// The progress of two hours has less than a MiB.
	maxSaid = 16 << 20
)

// baseConfig is given to every command, so that no configuration of a store can make it
// run another program.
var baseConfig = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.askPass=",
	"gc.auto=0",
	"maintenance.auto=false",
	"protocol.version=2",
	"http.followRedirects=false",
	// One processor per command, as the scheduler counts them; a fetch has Config.threads, and its
	// gate. What else computes in threads is short: a push packs little, and only a remote of plain
	// files makes a repack.
	"pack.threads=1",
	// A reverse index lists a pack's objects by position. index-pack of 205,000 objects takes
	// 1.35 s if it writes none, and 1.44 s if it writes one. git needs the list to send objects
	// of a pack, and then makes it in memory (6 ms for these). A push of new commits does not
	// need it.
	"pack.writeReverseIndex=false",
}

// InStore returns c as the command that runs git with args in a store, as its owner. It
// may read the store.
func (g *Git) InStore(store string, c Command, args ...string) Command {
	c.Args, c.Dir = append([]string{"--git-dir=."}, args...), store
	c.UID, c.GID = g.config.UID, g.config.GID
	c.Read = append(c.Read, store)
	return c
}

// allocation makes glibc take memory from its heap, in huge pages, also for allocations of
// up to 32 MB, because page faults are expensive on a virtual machine: read-tree of 100,000
// files has 1,000 of them in place of 5,600, and takes 90 ms in place of 150 ms. glibc keeps
// up to 32 MB of free memory at the end of the heap. Otherwise, depending on the heap's random
// address, it can return memory and take it again for each object: index-pack of a thin pack of
// 350 objects then makes 750 brk calls in place of 3. The mean of its times is 15.3 ms, and
// was 18.6 ms without this setting.
const allocation = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:glibc.malloc.trim_threshold=33554432"

// environment returns the whole environment of a command. A command that talks to a remote
// may use the transports in allowed. A local command has no transport, so a missing object
// of a partial clone is an error: git would otherwise fetch it as the uid that reads it.
func environment(c Command, allowed []string) []string {
	schemes, extra := "", []string{"GIT_NO_LAZY_FETCH=1"} // known to git 2.45 and newer
	if c.remote {
		schemes, extra = strings.Join(allowed, ":"), nil
	}
	env := append([]string{
		"PATH=/usr/bin:/bin",
		"HOME=/nonexistent",
		"LC_ALL=C",
		"TZ=UTC",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=/bin/false",
		"SSH_ASKPASS=/bin/false",
		"GIT_SSH_COMMAND=/bin/false", // runAt overrides it for ssh
		"GIT_ALLOW_PROTOCOL=" + schemes,
		"GIT_NO_REPLACE_OBJECTS=1",
		allocation,
	}, extra...)
	return append(env, c.Env...)
}

// invocation returns the program and arguments of c, and the configuration for its
// environment. It executes a transport helper directly, which saves starting git: more
// than the cost of the shell that sets the limits.
func invocation(c Command, set Config) (program string, args, config []string) {
	if c.Judge != nil {
		if set.Root != "" {
			return set.Self, c.Args, nil // Root has no /proc
		}
		return selfProgram, c.Args, nil
	}
	for _, kv := range baseConfig {
		args = append(args, "-c", kv)
	}
	if c.fetches {
		args = append(args, "-c", "pack.threads="+strconv.Itoa(c.threads(set)))
	}
	args = append(args, c.Args...)
	rest := args
	for len(rest) > 1 && rest[0] == "-c" {
		key, value, _ := strings.Cut(rest[1], "=")
		config = append(config, key, value)
		rest = rest[2:]
	}
	if len(rest) > 0 && strings.HasPrefix(rest[0], "remote-") && set.Program == defaultProgram {
		if transport := filepath.Join(programDir, "git-"+rest[0]); unix.Access(filepath.Join(set.Root, transport), unix.X_OK) == nil {
			return transport, rest[1:], append(config, c.config...)
		}
	}
	return set.Program, args, c.config
}

// exitCode returns the exit code in err, or -1.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}
