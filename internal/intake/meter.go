package intake

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
)

// ErrExcess is the error of reading when much more went in than came out.
var ErrExcess = errors.New("much more was sent than comes of it")

// Meter compares the bytes that go in with those that come of them. Reading fails with ErrExcess when more than twice
// as many went in as came out, beyond an allowance. It is safe for concurrent use.
type Meter struct{ in, out, allowed atomic.Int64 }

// NewMeter returns a Meter with an allowance, in bytes.
func NewMeter(allowed int64) *Meter {
	m := new(Meter)
	m.Allow(allowed)
	return m
}

// Allow adds to the allowance.
func (m *Meter) Allow(bytes int64) { m.allowed.Add(bytes) }

// Yield counts bytes that came out.
func (m *Meter) Yield(bytes int64) { m.out.Add(bytes) }

// check returns ErrExcess if nothing more may go in.
func (m *Meter) check() error {
	if m.in.Load() > 2*m.out.Load()+m.allowed.Load() {
		return ErrExcess
	}
	return nil
}

// read reads what goes in.
func (m *Meter) read(r io.Reader, data []byte) (int, error) {
	if err := m.check(); err != nil {
		return 0, err
	}
	n, err := r.Read(data)
	m.in.Add(int64(n))
	return n, err
}

// In returns a reader of r that counts what goes in.
func (m *Meter) In(r io.Reader) io.Reader { return in{m, r} }

type in struct {
	*Meter
	r io.Reader
}

func (i in) Read(data []byte) (int, error) { return i.read(i.r, data) }

// Out returns a reader of r that counts what comes out.
func (m *Meter) Out(r io.Reader) io.Reader { return out{m, r} }

type out struct {
	*Meter
	r io.Reader
}

func (o out) Read(data []byte) (int, error) {
	n, err := o.r.Read(data)
	o.Yield(int64(n))
	return n, err
}

// Until returns a reader of r that fails with the cause of ctx when that ends. It does not interrupt a read that
// waits, such as one of a pipe.
func Until(ctx context.Context, r io.Reader) io.Reader { return until{ctx, r} }

type until struct {
	ctx context.Context
	r   io.Reader
}

func (u until) Read(data []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(data)
}
