// Package ask asks the user: whether to go on, and for a secret.
package ask

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/cli/cli/streams"
	"github.com/moby/term"
)

// maxSecret is in bytes. The plugin accepts no larger request.
const maxSecret = 1 << 20

// Confirm prints what will happen and returns nil if the user answers y. If the user declines, the
// error is one of kind canceled, which docker does not print. flag is the one that spares the question.
func Confirm(ctx context.Context, in *streams.In, out io.Writer, text, flag string) error {
	fmt.Fprintf(out, "%s\nAre you sure you want to continue? [y/N] ", text)
	answer, err := read(ctx, func() (string, error) { return bufio.NewReader(in).ReadString('\n') })
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(out)
		return err
	case err != nil && answer == "":
		fmt.Fprintln(out)
		return fmt.Errorf("nobody answered: %s goes on without a question", flag)
	case !strings.EqualFold(strings.TrimSpace(answer), "y"):
		return declined{}
	}
	return nil
}

// declined is an error of the kind canceled, as package errdefs knows it.
type declined struct{}

func (declined) Error() string { return "declined" }
func (declined) Cancelled()    {}

// Secret reads a secret from in until its end. A secret of one line loses its line break; a secret that
// can have several lines is left as it is. On a terminal, Secret does not show what is typed.
func Secret(ctx context.Context, in *streams.In, out io.Writer, several bool) (string, error) {
	all := func() (string, error) {
		data, err := io.ReadAll(io.LimitReader(in, maxSecret+1))
		return string(data), err
	}
	if !in.IsTerminal() {
		secret, err := read(ctx, all)
		return checked(secret, several, err)
	}
	state, err := term.SaveState(in.FD())
	if err != nil {
		return "", err
	}
	if err := term.DisableEcho(in.FD(), state); err != nil {
		return "", err
	}
	defer func() {
		term.RestoreTerminal(in.FD(), state)
		fmt.Fprintln(out)
	}()
	if several {
		fmt.Fprintln(out, "Secret, ended by Ctrl-D on a line of its own (not shown):")
		secret, err := read(ctx, all)
		return checked(secret, several, err)
	}
	fmt.Fprint(out, "Secret (not shown): ")
	secret, err := read(ctx, func() (string, error) {
		s, err := bufio.NewReader(io.LimitReader(in, maxSecret+1)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return s, err
	})
	return checked(secret, several, err)
}

func checked(secret string, several bool, err error) (string, error) {
	if !several {
		secret = strings.TrimSuffix(strings.TrimSuffix(secret, "\n"), "\r")
	}
	switch {
	case err != nil:
		return "", err
	case !several && strings.ContainsAny(secret, "\r\n"):
		return "", errors.New("the secret has a line break, but is a token or a password")
	case secret == "":
		return "", errors.New("the secret is empty: it is read from standard input")
	case len(secret) > maxSecret:
		return "", fmt.Errorf("the secret is longer than %d bytes", maxSecret)
	}
	return secret, nil
}

// read calls f, and does not wait for it if ctx ends: a read of a terminal can't be interrupted.
func read(ctx context.Context, f func() (string, error)) (string, error) {
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := f()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
