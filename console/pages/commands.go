// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"net/url"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tripod-k8s/tripod/admin/search"
	"github.com/tripod-k8s/tripod/console/query"
)

// parameters is the domain of the labels that are parameters of search.
const parameters = "search.clusterpedia.io/"

// commands returns the kubectl command that finds the same objects, or nothing if only the URL can.
func commands(q query.Query, found *results) string {
	if found.mapping == nil {
		return ""
	}
	values := found.values
	var labels []string
	if selector := values.Get("labelSelector"); selector != "" {
		labels = append(labels, selector)
	}
	for _, parameter := range [][2]string{
		{"clusters", "clusters"}, {"names", "names"}, {"namespaces", "namespaces"}, {"ownerUID", "owner-uid"}, {"at", "at"},
		{"groupBy", "group-by"},
	} {
		if value := values.Get(parameter[0]); value != "" {
			labels = append(labels, parameters+parameter[1]+" in ("+value+")")
		}
	}
	if words := q.Values(""); len(words) > 0 {
		labels = append(labels, parameters+"words in ("+strings.Join(words, ",")+")")
	}
	if order := values.Get("orderby"); order != "" {
		labels = append(labels, parameters+"orderby in ("+strings.ReplaceAll(order, " desc", "_desc")+")")
	}
	isLabel := func(value string) bool { return len(validation.IsValidLabelValue(value)) == 0 }
	for _, key := range []string{"cluster", "name", "namespace", "owner", "at", ""} {
		if slices.ContainsFunc(q.Values(key), func(v string) bool { return !isLabel(v) }) {
			return "" // kubectl sends these as labels
		}
	}
	for _, by := range append(q.Values("sort"), q.Values("count")...) {
		if !isLabel(strings.TrimPrefix(by, "-")) {
			return ""
		}
	}
	command := []string{"kubectl", "--cluster", search.AllClusters, "get", resourceText(found), "-A"}
	if len(labels) > 0 {
		command = append(command, "-l", strings.Join(labels, ","))
	}
	if fields := values.Get("fieldSelector"); fields != "" {
		command = append(command, "--field-selector", fields)
	}
	return shellescape.QuoteCommand(command)
}

func resourceText(found *results) string {
	return found.mapping.Resource.GroupResource().String()
}

// rawCommand returns the kubectl command that reads a path.
func rawCommand(path string, values url.Values) string {
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	return shellescape.QuoteCommand([]string{"kubectl", "get", "--raw", path})
}
