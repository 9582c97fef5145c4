// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package graph draws measured times over time as SVG, on a logarithmic scale.
package graph

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
)

// Graph has panels, one below the other, on the same axis of seconds.
type Graph struct {
	Title  string
	Panels []Panel
	// Marks are vertical lines in all panels.
	Marks []Mark
}

// Panel is some lines.
type Panel struct {
	Title string
	Lines []Line
}

// Line is a line of one colour.
type Line struct {
	Name, Color string
	Points      []Point
}

// Point is a time that was measured.
type Point struct{ Second, Milliseconds float64 }

// Mark is a moment.
type Mark struct {
	Name, Color string
	Second      float64
}

const (
	width, left, right                 = 960.0, 72.0, 16.0
	panelHeight, panelGap, top, bottom = 220.0, 48.0, 76.0, 44.0

	// row is the height of a row of names of marks. There is space for so many rows.
	row, rows = 12.0, 2

	ink, faint = "#444", "#ddd"
)

// SVG draws the graph.
func (g Graph) SVG() []byte {
	s := g.scale()
	height := top + float64(len(g.Panels))*(panelHeight+panelGap) - panelGap + bottom
	d := &drawing{}
	edge := row * float64(min(rows-len(colors(g.Marks)), 0)) // above zero is what else does not fit
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 %g %g %g" font-family="sans-serif" font-size="12">`+"\n", edge, width, height-edge)
	fmt.Fprintf(d, `<rect y="%g" width="%g" height="%g" fill="white"/>`+"\n", edge, width, height-edge)
	d.text(left, 22+edge, "start", ink, g.Title)
	x := left
	for _, line := range g.Panels[0].Lines {
		d.line(x, 38+edge, x+24, 38+edge, line.Color, "")
		d.text(x+30, 42+edge, "start", ink, line.Name)
		x += 140
	}
	for i, panel := range g.Panels {
		d.panel(panel, s, top+float64(i)*(panelHeight+panelGap)+panelHeight)
	}
	d.marks(g.Marks, s, height-bottom)
	for second := math.Ceil(s.first/s.step) * s.step; second <= s.last; second += s.step {
		d.text(s.x(second), height-bottom+18, "middle", ink, fmt.Sprintf("%g s", second))
	}
	d.WriteString("</svg>\n")
	return d.Bytes()
}

type drawing struct{ bytes.Buffer }

// panel draws the lines of a panel whose lower edge is at base.
func (d *drawing) panel(p Panel, s scale, base float64) {
	d.text(width-right, base-panelHeight+14, "end", ink, p.Title)
	for ms := s.least; ms <= s.most; ms *= 10 {
		d.line(left, base-s.y(ms), width-right, base-s.y(ms), faint, "")
		d.text(left-6, base-s.y(ms)+4, "end", ink, fmt.Sprintf("%g ms", ms))
	}
	for _, line := range p.Lines {
		d.WriteString(`<polyline fill="none" stroke-width="2" stroke="` + line.Color + `" points="`)
		for _, point := range line.Points {
			fmt.Fprintf(d, "%.1f,%.1f ", s.x(point.Second), base-s.y(point.Milliseconds))
		}
		d.WriteString(`"/>` + "\n")
	}
}

// marks draws marks down to a height. Marks with a color have their names in a row of their own, on the left if the right has no space.
func (d *drawing) marks(marks []Mark, s scale, down float64) {
	order := colors(marks)
	for _, mark := range marks {
		x, y := s.x(mark.Second), top-8-row*float64(slices.Index(order, mark.Color))
		ends := x + 3 + 7*float64(len(mark.Name))
		taken := ends > width || slices.ContainsFunc(marks, func(other Mark) bool {
			return other.Color == mark.Color && s.x(other.Second) > x && s.x(other.Second) < ends
		})
		d.line(x, top-6, x, down, mark.Color, "3 3")
		if taken {
			d.text(x-3, y, "end", mark.Color, mark.Name)
		} else {
			d.text(x+3, y, "start", mark.Color, mark.Name)
		}
	}
}

// colors returns the colors of marks in the order in which they come.
func colors(marks []Mark) (all []string) {
	for _, mark := range marks {
		if !slices.Contains(all, mark.Color) {
			all = append(all, mark.Color)
		}
	}
	return all
}

func (d *drawing) line(x1, y1, x2, y2 float64, color, dashes string) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="%s"/>`+"\n", x1, y1, x2, y2, color, dashes)
}

func (d *drawing) text(x, y float64, anchor, color, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, html.EscapeString(text))
}

// scale returns the position of a point in a panel.
type scale struct{ first, last, step, least, most float64 }

func (g Graph) scale() scale {
	s := scale{first: math.Inf(1), last: math.Inf(-1), least: math.Inf(1), most: 1}
	for _, panel := range g.Panels {
		for _, line := range panel.Lines {
			for _, point := range line.Points {
				s.first, s.last = min(s.first, point.Second), max(s.last, point.Second)
				s.least, s.most = min(s.least, point.Milliseconds), max(s.most, point.Milliseconds)
			}
		}
	}
	s.step = math.Pow(10, math.Floor(math.Log10(max(s.last-s.first, 1)/2)))
	s.least, s.most = math.Pow(10, math.Floor(math.Log10(s.least))), math.Pow(10, math.Ceil(math.Log10(s.most)))
	return s
}

func (s scale) x(second float64) float64 {
	return left + (second-s.first)/max(s.last-s.first, 1)*(width-left-right)
}

func (s scale) y(milliseconds float64) float64 {
	return math.Log10(milliseconds/s.least) / math.Log10(max(s.most/s.least, 10)) * panelHeight
}
