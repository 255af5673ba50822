package clone

import "context"

// HealLayers forgets the layers whose directories are gone, so that the next Prepare
// builds them again. It reports whether there were any.
func (c *Clone) HealLayers(ctx context.Context) (healed bool, err error) {
	unlock, err := c.layers.Lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	list, err := c.layers.Void(kinds...)
	if err != nil || len(list) == 0 {
		return false, err
	}
	c.m.Log.WithFields(map[string]any{"clone": c.key, "layers": len(list)}).Error("layers are gone: they are built again")
	c.forgetBuilt(list)
	return true, c.layers.Remove(list)
}
