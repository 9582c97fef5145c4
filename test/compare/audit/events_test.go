// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/tripod-k8s/tripod/test/framework/both"
)

// events are audit events by the ID of the request, with who wrote them.
type events map[string][]event

type event struct {
	writer string
	fields map[string]any
}

// read returns the events of requests of tests.
func (s *side) read() (events, error) {
	all := events{}
	for _, writer := range slices.Sorted(maps.Keys(s.logs)) {
		if err := all.readFile(writer, s.logs[writer]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (e events) readFile(writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s ends in half a line: %w", path, err)
		}
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			return fmt.Errorf("%s: %w: %s", path, err, line)
		}
		if id, _ := fields["auditID"].(string); strings.HasPrefix(id, testsPrefix) {
			e[id] = append(e[id], event{writer, fields})
		}
	}
}

// texts returns events in words that can be compared.
func texts(events []event, port string, withAnswer bool) ([]string, error) {
	var texts []string
	for _, event := range events {
		if !withAnswer {
			delete(event.fields, "responseObject")
			status, _ := event.fields["responseStatus"].(map[string]any)
			event.fields["responseStatus"] = status["code"]
		}
		data, err := json.MarshalIndent(normal(event.fields, port), "", "  ")
		if err != nil {
			return nil, err
		}
		texts = append(texts, string(data))
	}
	return texts, nil
}

// writers returns who wrote events.
func writers(events []event) []string {
	names := map[string]bool{}
	for _, event := range events {
		names[event.writer] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// normaliser removes what differs between any two clusters.
var normaliser = both.Normaliser{
	Volatile: []both.Volatile{
		{Pattern: regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`), With: "TOKEN"},
		{Pattern: regexp.MustCompile(`\?hash=[0-9A-F]+`), With: "?hash=HASH"},
		{Pattern: regexp.MustCompile(`0x[0-9a-f]+`), With: "POINTER"},
		{Pattern: regexp.MustCompile(`^\d+s$`), With: "AGE"}, // in a table
		{Pattern: regexp.MustCompile(`warning threshold: \d+`), With: "warning threshold: SECONDS"},
		// Both allow some paths; RBAC takes the first that it finds.
		{
			Pattern: regexp.MustCompile(`Binding "system:(discovery|public-info-viewer)" of ClusterRole "system:(discovery|public-info-viewer)" to Group "system:authenticated"`),
			With:    "Binding of discovery",
		},
	},
	Fields: map[string]string{"resourceVersion": "VOLATILE", "continue": "VOLATILE"},
	Sets:   []string{"managedFields"}, // they are sorted by the second in which they were written
}

// normal returns the fields of an event of a server at a port without what differs between any two clusters.
func normal(fields map[string]any, port string) any {
	n := normaliser
	n.OwnText = func(text string) string { return strings.ReplaceAll(text, ":"+port, ":PORT") }
	if annotations, ok := fields["annotations"].(map[string]any); ok {
		maps.DeleteFunc(annotations, func(name string, _ any) bool {
			return strings.HasPrefix(name, "apiserver.latency.k8s.io/") // only where something took long
		})
	}
	return n.Value(fields)
}
