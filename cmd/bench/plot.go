package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// The size of the picture and the positions of its axes, in pixels.
const (
	plotWidth, plotHeight = 860, 520
	plotLeft, plotRight   = 74, 580
	plotTop, plotBottom   = 84, 456
	labelGap              = 19 // between the labels at the right
)

// curve is a row in the picture.
type curve struct {
	row, label string
	color      string
	ours       bool
	points     []point
	labelY     float64
}

type point struct{ files, ms float64 }

// curves returns the ways to get a clean workspace at the remote's newest commit if the remote
// has nothing new. The colours are visible on light and dark backgrounds.
func (r *report) curves() []*curve {
	all := []*curve{
		{row: warmMount, label: "ours: warm Mount", color: "#2f81f7", ours: true},
		{row: lsRemote, label: "git ls-remote alone", color: "#8b949e"},
		{row: inPlace, label: "in place: fetch, reset, clean", color: "#2da44e"},
		{row: "git-sync's way, nothing new", label: "git-sync's way", color: "#1b9aaa"},
		{row: "git clone --reference", label: "git clone --reference", color: "#d4a72c"},
		{row: freshClone, label: "git clone", color: "#cf222e"},
		{row: "git clone --depth 1", label: "git clone --depth 1", color: "#bc4c00"},
		{row: "cp -a --reflink=auto of a clone", label: "cp -a of a clone", color: "#a371f7"},
	}
	for _, c := range all {
		for _, files := range r.sizes() {
			if s := r.row(c.row, files); s != nil && s.Median > 0 && files > 0 {
				c.points = append(c.points, point{float64(files), s.Median})
			}
		}
	}
	return slices.DeleteFunc(all, func(c *curve) bool { return len(c.points) == 0 })
}

// plot draws time over the number of files, both logarithmic, as an SVG with its own
// background for light and dark pages.
func (r *report) plot() string {
	all := r.curves()
	var files, took []float64
	for _, c := range all {
		for _, p := range c.points {
			files, took = append(files, p.files), append(took, p.ms)
		}
	}
	if len(files) == 0 {
		files, took = []float64{1000}, []float64{1}
	}
	// Leave a margin at the sides, even for a single size.
	x := scale{slices.Min(files) / 1.2, slices.Max(files) * 1.2, plotLeft, plotRight}
	y := scale{below(slices.Min(took)), math.Pow(10, math.Ceil(math.Log10(slices.Max(took)*1.01))), plotBottom, plotTop}

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Time until a workspace is ready over the number of files">
<style>
text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328 }
.title { font-size: 17px; font-weight: 600 }
.note, .tick { fill: #59636e }
.page { fill: #ffffff }
.grid { stroke: #d1d9e0; stroke-width: 1 }
.minor { stroke: #eff2f5; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .note, .tick { fill: #9198a1 } .page { fill: #0d1117 } .grid { stroke: #3d444d } .minor { stroke: #1c2128 }
}
</style>
<rect class="page" width="%d" height="%d" rx="8"/>
<text class="title" x="24" y="34">A clean workspace, when the remote has nothing new</text>
<text class="note" x="24" y="56">median time until it is ready, over the number of files in the repository; both axes logarithmic</text>
`, plotWidth, plotHeight, plotWidth, plotHeight, plotWidth, plotHeight)
	for decade := math.Pow(10, math.Floor(math.Log10(y.from))); decade <= y.to*1.001; decade *= 10 {
		for _, m := range []float64{2, 5} {
			if v := decade * m; v > y.from && v < y.to {
				fmt.Fprintf(&b, `<path class="minor" d="M%d %.1fH%d"/>`+"\n", plotLeft, y.at(v), plotRight)
			}
		}
		if decade >= y.from {
			fmt.Fprintf(&b, `<path class="grid" d="M%d %.1fH%d"/><text class="tick" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
				plotLeft, y.at(decade), plotRight, plotLeft-8, y.at(decade)+4.5, tick(decade))
		}
	}
	fmt.Fprintf(&b, `<path class="grid" d="M%d %dH%d"/>`+"\n", plotLeft, plotBottom, plotRight)
	for _, n := range r.sizes() {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %dV%d"/><text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			x.at(float64(n)), plotTop, plotBottom, x.at(float64(n)), plotBottom+22, thousands(n))
	}
	fmt.Fprintf(&b, `<text class="note" x="%d" y="%d" text-anchor="middle">files</text>`+"\n", (plotLeft+plotRight)/2, plotBottom+44)
	spread(all, y)
	for _, c := range all {
		c.draw(&b, x, y)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw draws the line, its points, and the label at its end.
func (c *curve) draw(b *strings.Builder, x, y scale) {
	width, radius, weight := 1.8, 3.0, ""
	if c.ours {
		width, radius, weight = 3.6, 4.5, ` style="font-weight:600"`
	}
	var path []string
	for _, p := range c.points {
		path = append(path, fmt.Sprintf("%.1f %.1f", x.at(p.files), y.at(p.ms)))
	}
	fmt.Fprintf(b, `<path d="M%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>`+"\n", strings.Join(path, "L"), c.color, width)
	for _, p := range c.points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s"/>`+"\n", x.at(p.files), y.at(p.ms), radius, c.color)
	}
	last := c.points[len(c.points)-1]
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%d %.1f" fill="none" stroke="%s" stroke-width="1"/>`+"\n", x.at(last.files)+radius, y.at(last.ms), plotRight+12, c.labelY, c.color)
	fmt.Fprintf(b, `<text x="%d" y="%.1f"%s>%s, %s</text>`+"\n", plotRight+17, c.labelY+4.5, weight, html.EscapeString(c.label), ms.format(last.ms))
}

// spread separates the labels vertically. Each stays as near to the end of its line as the
// others allow.
func spread(all []*curve, y scale) {
	end := func(c *curve) float64 { return y.at(c.points[len(c.points)-1].ms) }
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b *curve) int { return cmp.Compare(end(a), end(b)) })
	for _, c := range sorted {
		c.labelY = end(c)
	}
	// Move labels that are too close to each other apart, step by step.
	for range 1000 {
		for i := 1; i < len(sorted); i++ {
			if missing := labelGap - (sorted[i].labelY - sorted[i-1].labelY); missing > 0 {
				sorted[i-1].labelY -= missing / 2
				sorted[i].labelY += missing / 2
			}
		}
	}
}

// scale maps values to pixels, logarithmically.
type scale struct {
	from, to       float64
	pixel, toPixel float64
}

func (s scale) at(v float64) float64 {
	return s.pixel + (s.toPixel-s.pixel)*math.Log(v/s.from)/math.Log(s.to/s.from)
}

// below returns the next lower number of the form 1, 2 or 5 times a power of ten.
func below(v float64) float64 {
	decade := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*decade < v {
			return m * decade
		}
	}
	if decade < v {
		return decade
	}
	return decade / 2
}

// tick formats a decade of milliseconds.
func tick(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%g s", v/1000)
	}
	return fmt.Sprintf("%g ms", v)
}
