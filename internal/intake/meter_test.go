package intake

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// endless repeats a text, and counts what was read.
type endless struct {
	text string
	n    int64
}

func (e *endless) Read(data []byte) (int, error) {
	n := 0
	for n < len(data) {
		n += copy(data[n:], e.text[(e.n+int64(n))%int64(len(e.text)):])
	}
	e.n += int64(n)
	return n, nil
}

// emptyBlock is a stored block of deflate without bytes, which is not the last.
const emptyBlock = "\x00\x00\x00\xff\xff"

// TestMeter: a stream that inflates to nothing ends, and those whose size is honest do not.
func TestMeter(t *testing.T) {
	t.Parallel()
	const allowed = 1 << 20
	inflate := func(r io.Reader) (int64, error) {
		m := NewMeter(allowed)
		return io.Copy(io.Discard, m.Out(flate.NewReader(m.In(r))))
	}
	bomb := &endless{text: emptyBlock}
	if n, err := inflate(bomb); n != 0 || !errors.Is(err, ErrExcess) || bomb.n > 2*allowed {
		t.Errorf("empty blocks: %d bytes, %v, after %d", n, err, bomb.n)
	}
	random := make([]byte, 8*allowed)
	rand.NewChaCha8([32]byte{}).Read(random)
	for name, content := range map[string][]byte{"random bytes": random, "zeros": make([]byte, 32*allowed)} {
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestSpeed)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(content)
		w.Close()
		if n, err := inflate(&packed); n != int64(len(content)) || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	m := NewMeter(10)
	if _, err := io.Copy(io.Discard, m.In(strings.NewReader(strings.Repeat("x", 10)))); err != nil {
		t.Errorf("as much as is allowed: %v", err)
	}
	m.Allow(5)
	m.Yield(5)
	if n, err := io.Copy(io.Discard, m.In(&endless{text: "x"})); !errors.Is(err, ErrExcess) || n <= 15 {
		t.Errorf("after another allowance: %d bytes, %v", n, err)
	}
}

func TestUntil(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason, r := errors.New("the client has hung up"), &endless{text: "x"}
	until := Until(ctx, r)
	if _, err := io.CopyN(io.Discard, until, 1<<20); err != nil {
		t.Fatal(err)
	}
	cancel(reason)
	read := r.n
	if _, err := io.Copy(io.Discard, until); err != reason || r.n != read {
		t.Errorf("got %v, and %d bytes more", err, r.n-read)
	}
}
