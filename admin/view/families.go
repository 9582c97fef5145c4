// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// maxText bounds all metrics of a server, and maxWanted those that a caller wants, which take more memory.
	maxText   = 32 << 20
	maxWanted = 8 << 20
	maxLine   = 64 << 10
)

// ErrTooLong is returned if a server publishes more than the bounds allow.
var ErrTooLong = errors.New("the metrics are too long")

// Parameters ask a server for some metrics only. A server may answer with all of them.
func Parameters(names ...string) url.Values { return url.Values{"name[]": names} }

// Families returns some metrics by their names. It returns ErrTooLong rather than a part of them.
func Families(text io.Reader, names ...string) (map[string]*dto.MetricFamily, error) {
	limited := &io.LimitedReader{R: text, N: maxText + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	var wanted bytes.Buffer
	for lines.Scan() {
		name, isMetric := metricOf(lines.Bytes())
		if !isMetric {
			return nil, fmt.Errorf("no metric begins with %.20q", lines.Text())
		}
		if !isPart(names, name) {
			continue
		}
		wanted.Write(lines.Bytes())
		wanted.WriteByte('\n')
		if wanted.Len() > maxWanted {
			return nil, ErrTooLong
		}
	}
	err := lines.Err()
	switch {
	case limited.N == 0, errors.Is(err, bufio.ErrTooLong):
		return nil, ErrTooLong
	case err != nil:
		return nil, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(&wanted)
}

// metricOf returns the name of the metric that a line is about. Comments other than its type, and empty lines, are about none.
func metricOf(line []byte) (name []byte, isMetric bool) {
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return nil, true
	}
	if line[0] == '#' {
		fields := bytes.Fields(line)
		if len(fields) < 3 || string(fields[1]) != "TYPE" {
			return nil, true
		}
		return fields[2], true
	}
	first := line[0]
	isMetric = first == '_' || first == ':' || first == '{' || first >= 'a' && first <= 'z' || first >= 'A' && first <= 'Z'
	if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
		line = line[:end]
	}
	return line, isMetric
}

// isPart returns whether a series belongs to one of the metrics.
func isPart(names []string, series []byte) bool {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		if name, found := bytes.CutSuffix(series, []byte(suffix)); found && slices.Contains(names, string(name)) {
			return true
		}
	}
	return false
}

// Label returns the value of a label, or an empty text.
func Label(metric *dto.Metric, name string) string {
	for _, pair := range metric.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}
