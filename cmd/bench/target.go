package main

import "fmt"

const (
	// The targets are for this many files, and this many new ones.
	targetFiles = 100000
	targetDirty = 50000
	// The size may not show in a warm Mount: this is what it is compared with.
	smallFiles = 1000

	// warmFactor is three times the one question that has to be asked: one for
	// it, and as much twice for all the rest.
	warmFactor = 3
	// unmountLimit, in ms, is what nobody notices when a container ends.
	unmountLimit = 10
	// sizeFactor leaves room for noise and for nothing that grows.
	sizeFactor = 1.3
)

// target is a limit and what was measured.
type target struct {
	Name  string  `json:"name"`
	Limit float64 `json:"limit"`
	Got   float64 `json:"got"`
	Unit  string  `json:"unit"`
	Pass  bool    `json:"pass"`
	// Informative is set for a target whose failure is not that of the run.
	Informative bool   `json:"informative,omitempty"`
	Note        string `json:"note,omitempty"`
}

// targets checks those whose rows were measured.
func targets(r *report) []target {
	var list []target
	add := func(t target) {
		t.Pass = t.Got <= t.Limit
		list = append(list, t)
	}
	mount, small := r.row(warmMount, targetFiles), r.row(warmMount, smallFiles)
	if ask := r.row(lsRemote, targetFiles); mount != nil && ask != nil {
		add(target{
			Name:  fmt.Sprintf("%s / %s at %d files, medians", warmMount, lsRemote, targetFiles),
			Limit: warmFactor, Got: mount.Median / ask.Median, Unit: "x",
			Note: fmt.Sprintf("%s / %s", milliseconds(mount.Median), milliseconds(ask.Median)),
		})
	}
	if u := r.row(unmountRow(targetDirty), targetFiles); u != nil {
		add(target{
			Name:  fmt.Sprintf("%s, at %d files, median", u.Name, targetFiles),
			Limit: unmountLimit, Got: u.Median, Unit: u.Unit,
			Note: fmt.Sprintf("max of %d: %s", len(u.Samples), milliseconds(u.max())),
		})
	}
	if mount != nil && small != nil {
		add(target{
			Name:  fmt.Sprintf("%s at %d files / at %d", warmMount, targetFiles, smallFiles),
			Limit: sizeFactor, Got: mount.Median / small.Median, Unit: "x", Informative: true,
			Note: fmt.Sprintf("%s / %s", milliseconds(mount.Median), milliseconds(small.Median)),
		})
	}
	return list
}

func (t target) String() string {
	verdict := "PASS"
	if !t.Pass {
		verdict = "FAIL"
	}
	if t.Informative {
		verdict += " (informative)"
	}
	return fmt.Sprintf("%s  %s: %.2f %s, limit %g (%s)", verdict, t.Name, t.Got, t.Unit, t.Limit, t.Note)
}
