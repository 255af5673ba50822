package workspace

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/meta"
)

// subjectOf returns the directory name of the subject of a clone.
func subjectOf(cloneKey string) string { return filepath.Dir(cloneKey) }

// Admit counts an Acquire for the subject of a clone, until done is called. The Acquire
// and the lease that it makes count as one, and so do several leases of one holder.
// Acquires of one lease must follow one another. It is an error if the subject has as many
// leases as MaxLeases allows.
func (m *Manager) Admit(cloneKey string, l Lease) (done func(), err error) {
	subject := subjectOf(cloneKey)
	most, own := 0, false
	if m.MaxLeases != nil {
		most, own = m.MaxLeases(subject)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if most > 0 {
		volumes, holders := make(map[string]int), make(map[Lease]bool)
		m.records.each(func(w *workspace) {
			for _, id := range w.rec.Leases {
				id, _ := meta.HolderOf(id)
				if holder := (Lease{w.rec.Volume, id}); !holders[holder] && subjectOf(w.rec.Clone) == subject {
					holders[holder] = true
					volumes[w.rec.Volume]++
				}
			}
		})
		n := len(holders)
		for l, of := range m.atWork {
			if !holders[l] && of == subject {
				n++
			}
		}
		if n >= most {
			limit := "the setting SUBJECT_MAX_LEASES"
			if own {
				limit = "its own limit max_leases"
			}
			return nil, fmt.Errorf("the subject has %d mounts, and %s allows %d: "+
				"end a container of %s, or raise the limit", n, limit, most, named(volumes))
		}
	}
	m.atWork[l] = subject
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.atWork, l)
	}, nil
}

// maxNamed bounds how many volumes an error names.
const maxNamed = 5

// named lists volumes with their numbers of leases.
func named(volumes map[string]int) string {
	if len(volumes) == 0 {
		return "those that are being mounted"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		list = append(list, fmt.Sprintf("%q (%d)", name, volumes[name]))
	}
	more := ""
	if n := len(list) - maxNamed; n > 0 {
		list, more = list[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return "the volumes " + strings.Join(list, ", ") + more
}
