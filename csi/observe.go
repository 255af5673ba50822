package csi

import "context"

// Operation is a call of kubelet that Config.Observe is told of.
type Operation string

const (
	Publish   Operation = "publish"
	Unpublish Operation = "unpublish"
)

// Operations lists all Operations.
func Operations() []Operation { return []Operation{Publish, Unpublish} }

// observed returns f, which reports how each call ends.
func (d *Driver) observed(op Operation, f method) method {
	if d.Observe == nil {
		return f
	}
	return func(ctx context.Context, request []byte) (reply message, err error) {
		code := Unavailable // after a panic
		defer func() { d.Observe(op, code) }()
		reply, err = f(ctx, request)
		code = CodeOf(err)
		return reply, err
	}
}
