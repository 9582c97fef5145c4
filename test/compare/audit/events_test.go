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

// volatile strings differ between any two clusters, whatever they are part of.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`), "X509SHA256=HASH"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`), "TOKEN"},
	{regexp.MustCompile(`\?hash=[0-9A-F]+`), "?hash=HASH"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "POINTER"},
	{regexp.MustCompile(`^\d+s$`), "AGE"}, // in a table
	{regexp.MustCompile(`warning threshold: \d+`), "warning threshold: SECONDS"},
	// Both allow some paths; RBAC takes the first that it finds.
	{regexp.MustCompile(`Binding "system:(discovery|public-info-viewer)" of ClusterRole "system:(discovery|public-info-viewer)" to Group "system:authenticated"`), "Binding of discovery"},
}

// volatileFields differ between any two clusters, by their name.
var volatileFields = []string{"resourceVersion", "continue"}

// normal returns a value without what differs between any two clusters.
func normal(value any, port string) any {
	switch value := value.(type) {
	case map[string]any:
		result := map[string]any{}
		for name, field := range value {
			text, isText := field.(string)
			switch {
			case strings.HasPrefix(name, "apiserver.latency.k8s.io/"): // only where something took long
			case slices.Contains(volatileFields, name) && isText && text != "" && text != "0":
				result[name] = "VOLATILE"
			default:
				result[name] = normal(field, port)
			}
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, element := range value {
			result[i] = normal(element, port)
		}
		// Managed fields are sorted by the second in which they were written.
		if isManagedFields(result) {
			slices.SortFunc(result, func(a, b any) int { return strings.Compare(marshal(a), marshal(b)) })
		}
		return result
	case string:
		for _, v := range volatile {
			value = v.pattern.ReplaceAllString(value, v.with)
		}
		return strings.ReplaceAll(value, ":"+port, ":PORT")
	}
	return value
}

func isManagedFields(list []any) bool {
	return slices.ContainsFunc(list, func(element any) bool {
		fields, _ := element.(map[string]any)
		return fields["fieldsV1"] != nil
	})
}
