package dockerd

import "time"

// Poll calls check until it succeeds. After limit it gives up and returns the last error.
func Poll(limit time.Duration, check func() error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		if err := check(); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
