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
	Op       string   // what is attempted, for errors
	Args     []string // of git
	Env      []string // on top of the built environment
	Dir      string
	UID, GID uint32
	Read     []string // directories that it may read
	Write    []string // directories that it may change
	Stdin    string
	// Stderr, if set, is called with each line of the standard error.
	Stderr func(line string)
	// Heavy has the command wait for a processor, and Large for the end of other large
	// commands. They are for commands that do not talk to a remote.
	Heavy, Large bool
	// Judge, if set, has the program Config.Self executed instead of git. It is called
	// with the standard output, of MaxOutput bytes at most, and with how the process
	// ended, and returns the words by which a failure is classified, as git's are, and the
	// error. Both of its arguments are the process's to choose.
	Judge     func(stdout []byte, err error) (words string, _ error)
	MaxOutput int

	url    string     // for errors
	config []string   // keys and values, in the environment too
	files  []*os.File // inherited, from descriptor 3 on
	// silence, if set, is how long the child may say nothing before it is ended.
	silence time.Duration
	// cleanup, if set, is called after a failure, before another try.
	cleanup func() error
	stdout  io.Writer // instead of what Run returns; for output without a limit
	// talk, if set, returns the standard output of a command that writes its
	// standard input itself, after the line that asks for a connection.
	talk func(in *os.File) *talk
	// question is set for a command that takes milliseconds and that a Mount waits
	// for: it runs at the plugin's own priority and may take less.
	question bool
	// remote is set by runAt: the command may talk to one.
	remote bool
	// fetches says that the command receives a pack, and says how far it is.
	fetches bool
}

// How the program Config.Self is executed: by a descriptor, because a path can be
// another file's by now, or in a directory that is root's alone.
const (
	ownProgram     = "/proc/self/exe"
	SelfDescriptor = 3 // it stays open in the child
	selfProgram    = "/proc/self/fd/3"
)

const (
	// maxStdout bounds what Run returns. What may be larger, such as an answer of a
	// remote, is read while it comes.
	maxStdout = 8 << 20
	// maxStderr is the tail of stderr that is kept for the error.
	maxStderr = 8 << 10
)

// baseConfig is given to every command: no configuration of a store can switch
// on what would run another program.
var baseConfig = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.askPass=",
	"gc.auto=0",
	"maintenance.auto=false",
	"protocol.version=2",
	"http.followRedirects=false",
	// One job, one processor: alone on two, index-pack of 125,000 objects (34 MB, 300
	// commits) takes 1.35 s with one thread and 1.5 s with two, which wait for each
	// other.
	"pack.threads=1",
}

// environment is all that a command finds in its own. One that is not to talk to
// a remote can't: without a transport, an object that a partial clone lacks is an
// error, where git would fetch it as whoever happens to read it.
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
		"GIT_SSH_COMMAND=/bin/false", // runAt says otherwise, where it is for ssh
		"GIT_ALLOW_PROTOCOL=" + schemes,
		"GIT_NO_REPLACE_OBJECTS=1",
	}, extra...)
	return append(env, c.Env...)
}

// invocation returns what executes c, and the configuration for its environment. A
// transport is executed itself, which saves the run of git around it: more than
// the shell costs that limits it.
func (g *Git) invocation(c Command) (program string, args, config []string) {
	if c.Judge != nil {
		if g.root != "" {
			return g.self, c.Args, nil // there is no /proc
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
