// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

const (
	// maxLineLength is the longest quote from a child's log.
	maxLineLength = 500
	// failedCommandBlock ends the line before an error of several lines.
	failedCommandBlock = `"command failed" err=<`
)

var (
	// klogHeader is the start of a line of klog's text format.
	klogHeader = regexp.MustCompile(`^[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [^ ]+:\d+\] `)
	// failedCommand is how k8s.io/component-base/cli logs the error of a command.
	failedCommand = regexp.MustCompile(`^"command failed" err=("(?:[^"\\]|\\.)*")`)
)

// errorLine returns the line of a log that says why a process gave up, or the last line if none does.
func errorLine(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasSuffix(lines[i], failedCommandBlock) {
			return shorten(block(lines[i+1:]))
		}
		if message := fatal(lines[i]); message != "" {
			return shorten(message)
		}
	}
	return lastLine(lines)
}

// block joins the lines that klog indents with a tab, as it does for a value of several lines.
func block(lines []string) string {
	var parts []string
	for _, line := range lines {
		part, ok := strings.CutPrefix(line, "\t")
		if !ok {
			break
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// fatal returns the error that a line reports, if the line ends a process.
func fatal(line string) string {
	if message, ok := strings.CutPrefix(line, "Error: "); ok {
		return message
	}
	if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
		return line
	}
	if strings.HasPrefix(line, "{") {
		return fatalJSON(line)
	}
	header := klogHeader.FindString(line)
	if match := failedCommand.FindStringSubmatch(line[len(header):]); match != nil {
		if message, err := strconv.Unquote(match[1]); err == nil {
			return message
		}
	}
	if strings.HasPrefix(header, "F") {
		return line[len(header):]
	}
	return ""
}

// fatalJSON is fatal for the JSON log format.
func fatalJSON(line string) string {
	var entry struct {
		Message string `json:"msg"`
		Error   string `json:"err"`
	}
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Message != "command failed" {
		return ""
	}
	return entry.Error
}

// tryHelp is what GNU programs say after the error.
var tryHelp = regexp.MustCompile(`^Try .* --help.* for more information\.$`)

// lastLine returns the last line that says something, without the header of the log format.
func lastLine(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" && !tryHelp.MatchString(line) {
			return shorten(line[len(klogHeader.FindString(line)):])
		}
	}
	return ""
}

// shorten returns one line of limited length.
func shorten(line string) string {
	line = strings.ReplaceAll(strings.TrimSpace(line), "\n", " ")
	if len(line) > maxLineLength {
		return strings.ToValidUTF8(line[:maxLineLength], "") + "…"
	}
	return line
}
