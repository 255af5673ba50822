package workspace

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// subjectOf is what a workspace's clone has of its subject.
func subjectOf(cloneKey string) string { return filepath.Dir(cloneKey) }

// Admit counts a Mount that begins, for a clone and so for its subject, until done;
// with the lease that it makes it counts once. Mounts of one lease are not to be at
// work at the same time. The error is that the subject has as many leases as it may
// have.
func (m *Manager) Admit(cloneKey, volume, leaseID string) (done func(), err error) {
	subject := subjectOf(cloneKey)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.MaxLeases > 0 {
		volumes := make(map[string]int)
		n := 0
		for l, w := range m.leases {
			if subjectOf(w.rec.Clone) == subject {
				volumes[l.volume]++
				n++
			}
		}
		for l, of := range m.atWork {
			if _, leased := m.leases[l]; !leased && of == subject {
				n++
			}
		}
		if n >= m.MaxLeases {
			return nil, fmt.Errorf("the subject has %d mounts, and the setting SUBJECT_MAX_LEASES allows %d: "+
				"end a container of %s, or raise the setting", n, m.MaxLeases, named(volumes))
		}
	}
	l := lease{volume, leaseID}
	m.atWork[l] = subject
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.atWork, l)
	}, nil
}

// maxNamed bounds how many volumes an error names.
const maxNamed = 5

// named lists volumes with what they have.
func named(volumes map[string]int) string {
	if len(volumes) == 0 {
		return "those that are being mounted"
	}
	text := "the volumes "
	for i, name := range slices.Sorted(maps.Keys(volumes)) {
		switch {
		case i == maxNamed:
			return text + fmt.Sprintf(" and %d more", len(volumes)-maxNamed)
		case i > 0:
			text += ", "
		}
		text += fmt.Sprintf("%q (%d)", name, volumes[name])
	}
	return text
}
