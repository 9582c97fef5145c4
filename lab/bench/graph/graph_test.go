// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"encoding/xml"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSlowerIsHigherAndLaterIsFurtherRight(t *testing.T) {
	svg := Graph{
		Title: "p99 of <everything>",
		Panels: []Panel{{Title: "GET", Lines: []Line{{Name: "stock", Color: "red", Points: []Point{
			{Second: -10, Milliseconds: 8}, {Second: 0, Milliseconds: 150}, {Second: 60, Milliseconds: 20},
		}}}}},
		Marks: []Mark{{Name: "begin", Color: "red"}},
	}.SVG()
	var document struct {
		Lines []struct {
			Points string `xml:"points,attr"`
		} `xml:"polyline"`
	}
	if err := xml.Unmarshal(svg, &document); err != nil {
		t.Fatalf("%v in %s", err, svg)
	}
	require.Len(t, document.Lines, 1, "%d lines, want 1", len(document.Lines))
	var x, y []float64
	for _, point := range strings.Fields(document.Lines[0].Points) {
		for i, coordinate := range strings.Split(point, ",") {
			value, err := strconv.ParseFloat(coordinate, 64)
			require.NoError(t, err)
			if i == 0 {
				x = append(x, value)
			} else {
				y = append(y, value)
			}
		}
	}
	if len(x) != 3 || x[0] >= x[1] || x[1] >= x[2] {
		t.Errorf("x of the points: %v", x)
	}
	if len(y) != 3 || y[1] >= y[2] || y[2] >= y[0] { // downwards
		t.Errorf("y of the points: %v", y)
	}
}

func TestEachColorOfMarksHasSpaceForNames(t *testing.T) {
	graph := Graph{Panels: []Panel{{Lines: []Line{{Points: []Point{{Second: 0, Milliseconds: 1}, {Second: 9, Milliseconds: 2}}}}}}}
	for colors, viewBox := range []string{`viewBox="0 0 960 340"`, `viewBox="0 0 960 340"`, `viewBox="0 0 960 340"`, `viewBox="0 -12 960 352"`} {
		graph.Marks = nil
		for i := range colors {
			graph.Marks = append(graph.Marks, Mark{Name: "mark", Color: strconv.Itoa(i)})
		}
		require.Contains(t, string(graph.SVG()), viewBox, "%d colors", colors)
	}
}
