package replica

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// gone removes a name from the copy that the source has no more.
func (p *pass) gone(d *dir, e *entry) error {
	if e.kind != 0 {
		p.result.changed.Add(1)
	}
	return p.remove(d, e)
}

// remove removes a name from the copy's directory d, if the copy has it.
func (p *pass) remove(d *dir, e *entry) error {
	if e.kind == 0 {
		return nil
	}
	d.stale.Store(true)
	if err := p.removeAt(d.out, e.name); err != nil {
		return fmt.Errorf("remove the copy of %q: %w", d.below(e.name), err)
	}
	p.held.Add(-e.holds())
	return nil
}

// removeAt removes a name with all that is below it. A missing one is no error.
func (p *pass) removeAt(dir int, name string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	sub, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer sub.Close()
	for {
		names, err := sub.Readdirnames(batch)
		for _, name := range names {
			if err := p.removeAt(int(sub.Fd()), name); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
		}
		if err != nil {
			return err
		}
	}
}
