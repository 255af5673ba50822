package main

import "github.com/helmdeck/repos/cmd/bench/chart"

// plot draws the ways to get a clean workspace at the remote's newest commit if the remote has
// nothing new.
func (r *report) plot() string {
	var curves []chart.Curve
	for _, way := range []struct{ row, label, color string }{
		{warmMount, "ours: warm Mount", "#2f81f7"},
		{lsRemote, "git ls-remote alone", "#8b949e"},
		{inPlace, inPlace, "#2da44e"},
		{"git-sync's way, nothing new", "git-sync's way", "#1b9aaa"},
		{"git clone --reference", "git clone --reference", "#d4a72c"},
		{freshClone, freshClone, "#cf222e"},
		{"git clone --depth 1", "git clone --depth 1", "#bc4c00"},
		{"cp -a --reflink=auto of a clone", "cp -a of a clone", "#a371f7"},
	} {
		c := chart.Curve{Color: way.color, Bold: way.row == warmMount}
		for _, files := range r.sizes() {
			if s := r.row(way.row, files); s != nil && s.Median > 0 && files > 0 {
				c.Points = append(c.Points, chart.Point{Files: float64(files), Milliseconds: s.Median})
				c.Label = way.label + ", " + ms.format(s.Median)
			}
		}
		if len(c.Points) > 0 {
			curves = append(curves, c)
		}
	}
	var ticks []chart.Tick
	for _, n := range r.sizes() {
		ticks = append(ticks, chart.Tick{Files: float64(n), Text: thousands(n)})
	}
	return chart.Draw(curves, ticks)
}
