package intake

import (
	"context"
	"fmt"
	"io"
)

const (
	// small is a body that needs no turn, in bytes, and large is how many larger ones are in memory at a time.
	small = 64 << 10
	large = 4
)

// turns has a place for each large body.
var turns = make(chan struct{}, large)

// Whole reads all of r, of at most a few MiB, and calls use with it, which must not keep it. Of bodies of more than
// 64 KiB only four are in memory at a time; to wait for a turn ends with ctx.
func Whole(ctx context.Context, r io.Reader, use func(data []byte) error) error {
	data, err := io.ReadAll(io.LimitReader(r, small))
	if err == nil && len(data) == small {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var more []byte
		if more, err = io.ReadAll(r); err == nil {
			data = append(data, more...)
		}
	}
	if err != nil {
		return err
	}
	return use(data)
}

// MaxElements is enough for any request.
const MaxElements = 10_000

// Elements returns an error if a text of JSON has more than most elements: names, values, and brackets that open. To
// decode an element of two bytes may take a hundred bytes of memory. It does not say whether the text is valid.
func Elements(text []byte, most int) error {
	n, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == ':' || c == '{' || c == '['):
			n++
		}
	}
	if n > most {
		return fmt.Errorf("it has more than %d names and values", most)
	}
	return nil
}
