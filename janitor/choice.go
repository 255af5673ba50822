package janitor

import (
	"iter"
	"slices"
)

// Choice chooses clones by their keys. The zero Choice takes all.
type Choice struct {
	Match func(key string) bool // nil: all
	Limit int                   // the first so many, in the order of their keys; 0: all
}

// One returns the choice of one clone.
func One(key string) Choice { return Choice{Match: func(k string) bool { return k == key }} }

// Of returns the chosen ones of keys, sorted and each once. With a limit it sorts little more than
// that many.
func (c Choice) Of(keys iter.Seq[string]) []string {
	var list []string
	last, full := "", false // of a full list: greater keys are not chosen
	first := func() {
		slices.Sort(list)
		list = slices.Compact(list)
		if c.Limit > 0 && len(list) >= c.Limit {
			list = list[:c.Limit]
			last, full = list[c.Limit-1], true
		}
	}
	for key := range keys {
		if full && key >= last || c.Match != nil && !c.Match(key) {
			continue
		}
		if list = append(list, key); c.Limit > 0 && len(list) >= 2*c.Limit {
			first()
		}
	}
	first()
	return list
}
