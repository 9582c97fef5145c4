// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// difference is one thing that differs between the answers to a request.
type difference struct {
	request string
	// at is where: "status", "header NAME", "layout", or "body" with the path of a field.
	at string
	// stock and tripod are what the two answered; "nothing" where one does not have it.
	stock, tripod string
}

const nothing = "nothing"

func (d difference) String() string {
	return fmt.Sprintf("%s\n      stock:  %s\n      tripod: %s", d.at, shorten(d.stock), shorten(d.tripod))
}

func shorten(text string) string {
	const limit = 600
	if len(text) > limit {
		return text[:limit] + fmt.Sprintf("... (%d bytes)", len(text))
	}
	return text
}

// differ collects the differences between two decoded values.
type differ struct {
	request string
	found   []difference
}

func (d *differ) report(at string, stock, tripod any) {
	d.found = append(d.found, difference{request: d.request, at: at, stock: inWords(stock), tripod: inWords(tripod)})
}

// missing stands for what only one side has.
type missing struct{}

func inWords(value any) string {
	if _, isMissing := value.(missing); isMissing {
		return nothing
	}
	if text, isString := value.(string); isString {
		return text
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

func (d *differ) compare(at string, stock, tripod any) {
	if stock, ok := stock.(map[string]any); ok {
		if tripod, ok := tripod.(map[string]any); ok {
			d.compareMaps(at, stock, tripod)
			return
		}
	}
	if stock, ok := stock.([]any); ok {
		if tripod, ok := tripod.([]any); ok {
			d.compareLists(at, stock, tripod)
			return
		}
	}
	if stockText, ok := stock.(string); ok && strings.Contains(stockText, "\n") {
		if tripodText, ok := tripod.(string); ok {
			d.compareLists(at, lines(stockText), lines(tripodText))
			return
		}
	}
	if inWords(stock) != inWords(tripod) {
		d.report(at, stock, tripod)
	}
}

func lines(text string) []any {
	var result []any
	for line := range strings.Lines(text) {
		result = append(result, strings.TrimSuffix(line, "\n"))
	}
	return result
}

func (d *differ) compareMaps(at string, stock, tripod map[string]any) {
	names := slices.Sorted(maps.Keys(stock))
	for name := range tripod {
		if _, found := stock[name]; !found {
			names = append(names, name)
		}
	}
	for _, name := range names {
		d.compareElement(at+"/"+name, stock, tripod, name)
	}
}

func (d *differ) compareElement(at string, stock, tripod map[string]any, key string) {
	stockValue, inStock := stock[key]
	tripodValue, inTripod := tripod[key]
	switch {
	case !inStock:
		d.report(at, missing{}, tripodValue)
	case !inTripod:
		d.report(at, stockValue, missing{})
	default:
		d.compare(at, stockValue, tripodValue)
	}
}

// compareLists compares elements that belong together, and the order of the lists as a whole.
func (d *differ) compareLists(at string, stock, tripod []any) {
	stockKeys, stockByKey := index(stock)
	tripodKeys, tripodByKey := index(tripod)
	for _, key := range stockKeys {
		d.compareElement(at+"["+key+"]", stockByKey, tripodByKey, key)
	}
	for _, key := range tripodKeys {
		if _, found := stockByKey[key]; !found {
			d.report(at+"["+key+"]", missing{}, tripodByKey[key])
		}
	}
	inBoth := func(keys []string) []string {
		return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
			_, inStock := stockByKey[key]
			_, inTripod := tripodByKey[key]
			return !inStock || !inTripod
		})
	}
	if a, b := inBoth(stockKeys), inBoth(tripodKeys); !slices.Equal(a, b) {
		d.report(at+" order", strings.Join(a, " "), strings.Join(b, " "))
	}
}

// index returns the elements of a list by what identifies them, and those keys in order.
func index(list []any) ([]string, map[string]any) {
	keys := make([]string, 0, len(list))
	byKey := make(map[string]any, len(list))
	for i, element := range list {
		key := identity(element)
		if key == "" {
			key = strconv.Itoa(i)
		}
		if _, taken := byKey[key]; taken {
			key += "#" + strconv.Itoa(i)
		}
		keys = append(keys, key)
		byKey[key] = element
	}
	return keys, byKey
}

// identityFields are the fields that together distinguish the elements of the lists of Kubernetes.
var identityFields = []string{
	"namespace", "manager", "operation", "subresource", "groupVersion", "version", "group", "resource", "name", "in",
	"type", "kind", "reason", "field", "clientCIDR",
}

// identity returns what distinguishes an element of a list from the others, or nothing.
func identity(element any) string {
	object, isObject := element.(map[string]any)
	if !isObject {
		if text := inWords(element); len(text) < 200 {
			return text
		}
		return ""
	}
	for _, wrapped := range []string{"object", "metadata"} {
		if inner, found := object[wrapped].(map[string]any); found {
			if key := identity(inner); key != "" {
				return key
			}
		}
	}
	var parts []string
	for _, field := range identityFields {
		if text, isString := object[field].(string); isString && text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " ")
}
