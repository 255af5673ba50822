package chart

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestDraw(t *testing.T) {
	line := []Curve{{Label: "a < b", Color: "#123456", Points: []Point{{1000, 10}, {100000, 20}}}}
	for _, test := range []struct {
		name   string
		curves []Curve
		ticks  []Tick
		want   []string
	}{
		{"nothing", nil, nil, nil},
		{"one point", []Curve{{Label: "one", Points: []Point{{1, 0.001}}}}, nil, []string{">one<"}},
		{"two points", line, []Tick{{1000, "1,000"}, {100000, "100,000"}}, []string{">a &lt; b<", ">100,000<", "#123456", ">100 ms<"}},
	} {
		picture := Draw(test.curves, test.ticks)
		for d := xml.NewDecoder(strings.NewReader(picture)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", test.name, err, picture)
			}
		}
		for _, bad := range []string{"NaN", "Inf", "%!"} {
			if strings.Contains(picture, bad) {
				t.Errorf("%s: %q is in the picture:\n%s", test.name, bad, picture)
			}
		}
		for _, text := range test.want {
			if !strings.Contains(picture, text) {
				t.Errorf("%s: %q is not in the picture:\n%s", test.name, text, picture)
			}
		}
	}
}

func TestLabelsDoNotOverlap(t *testing.T) {
	var curves []Curve
	for i := range 5 {
		curves = append(curves, Curve{Label: fmt.Sprint(i), Points: []Point{{1000, 100 + float64(i)/100}}})
	}
	heights := spread(curves, scale{10, 1000, 400, 80})
	for i, a := range heights {
		for j, b := range heights[:i] {
			if d := a - b; d > -labelGap+1 && d < labelGap-1 {
				t.Errorf("labels %q and %q are %.1f pixels apart", curves[i].Label, curves[j].Label, d)
			}
		}
	}
}
