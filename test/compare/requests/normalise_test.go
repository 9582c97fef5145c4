// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// presenceOnly are headers whose values differ between any two clusters.
var presenceOnly = []string{"Audit-Id", "Date", "Etag", "Last-Modified", "Process-Start-Time-Unix"}

// unstable are headers that need not even be there on both sides: a server may send any answer in chunks.
var unstable = []string{"Content-Length"}

// volatile strings differ between any two clusters, whatever they are part of.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`apiserver-[a-z0-9]{26}`), "apiserver-HASH"},
	{regexp.MustCompile(`\?hash=[0-9A-F]+`), "?hash=HASH"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`), "TOKEN"},
	{regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), "kube-api-access-RANDOM"},
	{regexp.MustCompile(`X509SHA256=[0-9a-f]{64}`), "X509SHA256=HASH"},
	{regexp.MustCompile(`too old resource version: \d+ \(\d+\)`), "too old resource version: N (N)"},
	{regexp.MustCompile(`10\.0\.0\.(\d{2,3}|[2-9])\b`), "CLUSTER-IP"}, // all but that of the Service kubernetes
}

// age is how long ago something was, in the cell of a table.
var age = regexp.MustCompile(`^(\d+[dhms])+$|^<invalid>$`)

// ports are those of a Service, in the cell of a table.
var ports = regexp.MustCompile(`^(\d+):\d+/TCP$`)

// certificate is a PEM block in a string.
var certificate = regexp.MustCompile(`(?s)-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----`)

// volatileFields differ between any two clusters, by their name.
var volatileFields = map[string]string{
	"resourceVersion": "RESOURCE-VERSION",
	"continue":        "CONTINUE",
	"nodePort":        "NODE-PORT",
	"gitCommit":       "COMMIT",
}

// sets are lists without an order to compare: that of the rules of a SelfSubjectRulesReview is random, and managed
// fields are sorted by the second in which they were written.
var sets = []string{"resourceRules", "nonResourceRules", "managedFields"}

// normaliser removes from answers of one cluster what differs between any two.
type normaliser struct {
	host, port string
	uids       map[string]string
}

func newNormaliser(s *side) normaliser {
	host := strings.TrimPrefix(s.cluster.URL, "https://")
	_, port, _ := strings.Cut(host, ":")
	return normaliser{host: host, port: port, uids: s.uids}
}

// headers returns the headers with what is comparable of their values.
func (n normaliser) headers(header http.Header) map[string]any {
	result := map[string]any{}
	for name, values := range header {
		switch {
		case slices.Contains(unstable, name):
		case slices.Contains(presenceOnly, name):
			result[name] = "PRESENT"
		default:
			all := make([]any, 0, len(values))
			for _, value := range values {
				all = append(all, n.text(value))
			}
			slices.SortFunc(all, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			result[name] = all
		}
	}
	return result
}

// value returns a decoded body without what differs between any two clusters.
func (n normaliser) value(value any) any {
	switch value := value.(type) {
	case map[string]any:
		result := make(map[string]any, len(value))
		for name, field := range value {
			result[n.text(name)] = n.field(name, field)
		}
		return result
	case []any:
		result := make([]any, len(value))
		for i, element := range value {
			result[i] = n.value(element)
		}
		return result
	case string:
		return n.text(value)
	case json.Number:
		if value.String() == n.port {
			return "PORT"
		}
	}
	return value
}

func (n normaliser) field(name string, value any) any {
	if with, found := volatileFields[name]; found {
		if text, isString := value.(string); isString && (text == "" || text == "0") {
			return text
		}
		if _, isSchema := value.(map[string]any); !isSchema {
			return with
		}
	}
	list, isList := value.([]any)
	switch {
	case isList && name == "cells":
		return n.cells(list)
	case isList && slices.Contains(sets, name):
		normal := n.value(list).([]any)
		slices.SortFunc(normal, func(a, b any) int { return strings.Compare(inWords(a), inWords(b)) })
		return normal
	}
	return n.value(value)
}

func (n normaliser) cells(cells []any) []any {
	result := make([]any, len(cells))
	for i, cell := range cells {
		if text, isString := cell.(string); isString && age.MatchString(text) {
			result[i] = "AGE"
			continue
		} else if isString {
			cell = ports.ReplaceAllString(text, "$1:NODE-PORT/TCP")
		}
		result[i] = n.value(cell)
	}
	return result
}

func (n normaliser) text(text string) string {
	if name, found := n.uids[text]; found {
		return "UID of " + name
	}
	text = certificate.ReplaceAllStringFunc(text, subject)
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, n.host, "HOST:PORT"), ":"+n.port, ":PORT")
}

// subject returns what a certificate is for; every cluster has its own.
func subject(text string) string {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return text
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return text
	}
	return "CERTIFICATE of " + cert.Subject.String()
}
