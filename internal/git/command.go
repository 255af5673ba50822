package git

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	// Stderr, if set, is called with each line of the standard error.
	Stderr func(line string)
	// A Heavy command waits for a slot, and a Large one also for the end of other large
	// commands. Neither is for commands that talk to a remote.
	Heavy, Large bool
	// If Judge is set, the command executes Config.Self instead of git. Judge is called
	// with the stdout, of at most MaxOutput bytes, and the error of the process, which
	// both are untrusted, and returns the text that classifies a failure, as git's stderr
	// does, and the error.
	Judge     func(stdout []byte, err error) (words string, _ error)
	MaxOutput int

	url    string     // for errors
	config []string   // keys and values, in the environment too
	files  []*os.File // passed as descriptors from 3
	// silence, if set, is how long the child may write nothing to stderr before it is
	// ended.
	silence time.Duration
	// cleanup, if set, is called after a failure, before another try.
	cleanup func() error
	stdout  io.Writer // instead of what Run returns; for output without a limit
	// talk, if set, returns the writer for the command's stdout, which itself writes to
	// the command's stdin after the line stateless.
	talk func(in *os.File) *talk
	// question is set for a command that takes milliseconds and that a Mount waits for:
	// it runs at the plugin's own priority, with lower limits.
	question bool
	// remote is set by runAt: the command may talk to a remote.
	remote bool
	// fetches is set for a command that receives a pack and prints its progress.
	fetches bool
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
	// One processor per command: on an idle machine with two, index-pack of 125,000
	// objects (34 MB, 300 commits) takes 1.35 s with one thread and 1.5 s with two, which
	// wait for each other.
	"pack.threads=1",
}

// environment returns the whole environment of a command. A local command has no
// transport, so a missing object of a partial clone is an error: git would otherwise
// fetch it as the uid that reads it.
func (g *Git) environment(c Command) []string {
	schemes, extra := "", []string{"GIT_NO_LAZY_FETCH=1"} // known to git 2.45 and newer
	if c.remote {
		schemes, extra = g.schemes, nil
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
	}, extra...)
	return append(env, c.Env...)
}

// invocation returns the program and arguments of c, and the configuration for its
// environment. It executes a transport helper directly, which saves starting git: more
// than the cost of the shell that sets the limits.
func (g *Git) invocation(c Command) (program string, args, config []string) {
	if c.Judge != nil {
		if g.root != "" {
			return g.self, c.Args, nil // Root has no /proc
		}
		return selfProgram, c.Args, nil
	}
	for _, kv := range baseConfig {
		args = append(args, "-c", kv)
	}
	args = append(args, c.Args...)
	rest := args
	for len(rest) > 1 && rest[0] == "-c" {
		key, value, _ := strings.Cut(rest[1], "=")
		config = append(config, key, value)
		rest = rest[2:]
	}
	if len(rest) > 0 && strings.HasPrefix(rest[0], "remote-") && g.program == defaultProgram {
		if transport := filepath.Join(programDir, "git-"+rest[0]); unix.Access(filepath.Join(g.root, transport), unix.X_OK) == nil {
			return transport, rest[1:], append(config, c.config...)
		}
	}
	return g.program, args, c.config
}

// scan calls f for each line of a command's output.
func scan(out []byte, f func(line string) error) error {
	s := bufio.NewScanner(bytes.NewReader(out))
	s.Buffer(nil, maxStdout)
	for s.Scan() {
		if err := f(s.Text()); err != nil {
			return err
		}
	}
	return s.Err()
}

// exitCode returns the exit code in err, or -1.
func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
