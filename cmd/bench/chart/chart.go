// Package chart draws how long something takes over the number of files in a repository.
package chart

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

// Curve is a line of the picture.
type Curve struct {
	Label  string // drawn at the line's end
	Color  string // visible on light and dark backgrounds
	Bold   bool
	Points []Point // at least one, with positive values, in the order of Files
}

// Point is the time that a number of files takes.
type Point struct {
	Files, Milliseconds float64
}

// Tick is a number of files with its name on the axis.
type Tick struct {
	Files float64
	Text  string
}

// Draw draws the curves, with time over the number of files, both logarithmic, as an SVG with its
// own background for light and dark pages. Without curves the picture has only the axes.
func Draw(curves []Curve, ticks []Tick) string {
	var files, took []float64
	for _, c := range curves {
		for _, p := range c.Points {
			files, took = append(files, p.Files), append(took, p.Milliseconds)
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
				plotLeft, y.at(decade), plotRight, plotLeft-8, y.at(decade)+4.5, duration(decade))
		}
	}
	fmt.Fprintf(&b, `<path class="grid" d="M%d %dH%d"/>`+"\n", plotLeft, plotBottom, plotRight)
	for _, t := range ticks {
		fmt.Fprintf(&b, `<path class="grid" d="M%.1f %dV%d"/><text class="tick" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
			x.at(t.Files), plotTop, plotBottom, x.at(t.Files), plotBottom+22, html.EscapeString(t.Text))
	}
	fmt.Fprintf(&b, `<text class="note" x="%d" y="%d" text-anchor="middle">files</text>`+"\n", (plotLeft+plotRight)/2, plotBottom+44)
	labels := spread(curves, y)
	for i, c := range curves {
		c.draw(&b, x, y, labels[i])
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// draw draws the line, its points, and the label at the height labelY.
func (c Curve) draw(b *strings.Builder, x, y scale, labelY float64) {
	width, radius, weight := 1.8, 3.0, ""
	if c.Bold {
		width, radius, weight = 3.6, 4.5, ` style="font-weight:600"`
	}
	var path []string
	for _, p := range c.Points {
		path = append(path, fmt.Sprintf("%.1f %.1f", x.at(p.Files), y.at(p.Milliseconds)))
	}
	fmt.Fprintf(b, `<path d="M%s" fill="none" stroke="%s" stroke-width="%g" stroke-linejoin="round"/>`+"\n", strings.Join(path, "L"), c.Color, width)
	for _, p := range c.Points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s"/>`+"\n", x.at(p.Files), y.at(p.Milliseconds), radius, c.Color)
	}
	last := c.Points[len(c.Points)-1]
	fmt.Fprintf(b, `<path d="M%.1f %.1fL%d %.1f" fill="none" stroke="%s" stroke-width="1"/>`+"\n", x.at(last.Files)+radius, y.at(last.Milliseconds), plotRight+12, labelY, c.Color)
	fmt.Fprintf(b, `<text x="%d" y="%.1f"%s>%s</text>`+"\n", plotRight+17, labelY+4.5, weight, html.EscapeString(c.Label))
}

// spread returns the heights of the curves' labels, separated from each other. Each is as near to the
// end of its line as the others allow.
func spread(curves []Curve, y scale) []float64 {
	heights, sorted := make([]float64, len(curves)), make([]*float64, len(curves))
	for i, c := range curves {
		heights[i] = y.at(c.Points[len(c.Points)-1].Milliseconds)
		sorted[i] = &heights[i]
	}
	slices.SortStableFunc(sorted, func(a, b *float64) int { return cmp.Compare(*a, *b) })
	// Move labels that are too close to each other apart, step by step.
	for range 1000 {
		for i := 1; i < len(sorted); i++ {
			if missing := labelGap - (*sorted[i] - *sorted[i-1]); missing > 0 {
				*sorted[i-1] -= missing / 2
				*sorted[i] += missing / 2
			}
		}
	}
	return heights
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

// duration formats a decade of milliseconds.
func duration(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%g s", v/1000)
	}
	return fmt.Sprintf("%g ms", v)
}
