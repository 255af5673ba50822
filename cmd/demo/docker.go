package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// docker runs the docker command line, as a user does.
type docker struct {
	out io.Writer // for the commands that are shown, and their output
}

// show prints the command, runs it, and prints and returns its stdout.
func (d docker) show(ctx context.Context, args ...string) (string, error) {
	d.print(args...)
	out, err := d.quiet(ctx, args...)
	d.printOutput(out)
	return out, err
}

// print prints a command as a user would type it.
func (d docker) print(args ...string) {
	line := "$ docker"
	for _, arg := range args {
		line += " " + quote(arg)
	}
	fmt.Fprintln(d.out, line)
}

func (d docker) printOutput(out string) {
	if out != "" {
		fmt.Fprintln(d.out, indent(out))
	}
}

// quiet runs a command without printing it, and returns its stdout without the trailing newline.
// The error includes its stderr.
func (d docker) quiet(ctx context.Context, args ...string) (string, error) {
	return d.feed(ctx, nil, args...)
}

// feed is quiet with a stdin.
func (d docker) feed(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "docker", args...)
	// An interrupted "docker run" ends its container; a killed one would leave it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	out := strings.TrimRight(stdout.String(), "\n")
	if err != nil {
		return out, fmt.Errorf("docker %s: %w: %s", strings.Join(args[:min(2, len(args))], " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// quote quotes a word for the shell.
func quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(text, "\n", "\n    ")
}

// title prints a heading.
func title(text string) { fmt.Printf("\n== %s\n\n", text) }

// say prints an explanation.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// checked prints a statement that was just verified.
func checked(format string, args ...any) { fmt.Printf("=> "+format+"\n", args...) }
