// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"regexp"
	"slices"
	"strings"
)

// volatile is what differs between any two clusters, wherever it is.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`), "X509SHA256=HASH"},
	{regexp.MustCompile(`\b(gen|settle)-[a-z0-9]{5}\b`), "$1-RANDOM"},
	{regexp.MustCompile(`/(stock|tripod)/`), "/SIDE/"},
}

func normalText(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// normal returns a decoded JSON value without what differs between any two clusters.
func normal(value any) any {
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for name, field := range value {
			if text, isString := field.(string); isString && name == "resourceVersion" && text != "" {
				field = "RESOURCE-VERSION"
			}
			result[name] = normal(field)
			if list, isList := result[name].([]any); isList && name == "managedFields" {
				// They are in the order of seconds.
				slices.SortFunc(list, func(a, b any) int { return strings.Compare(inWords(a), inWords(b)) })
			}
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, element := range value {
			result[i] = normal(element)
		}
		return result
	case string:
		return normalText(value)
	}
	return value
}
