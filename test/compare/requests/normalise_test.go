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

	"github.com/tripod-k8s/tripod/test/framework/both"
)

// presenceOnly are headers whose values differ between any two clusters.
var presenceOnly = []string{"Audit-Id", "Date", "Etag", "Expires", "Last-Modified", "Process-Start-Time-Unix"}

// unstable are headers that need not even be there on both sides: a server may send any answer in chunks.
var unstable = []string{"Content-Length"}

// volatile text differs between any two clusters, whatever it is part of.
var volatile = []both.Volatile{
	{Pattern: regexp.MustCompile(`apiserver-[a-z0-9]{26}`), With: "apiserver-HASH"},
	{Pattern: regexp.MustCompile(`\?hash=[0-9A-F]+`), With: "?hash=HASH"},
	{Pattern: regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]*`), With: "TOKEN"},
	{Pattern: regexp.MustCompile(`kube-api-access-[a-z0-9]{5}`), With: "kube-api-access-RANDOM"},
	{Pattern: regexp.MustCompile(`too old resource version: \d+ \(\d+\)`), With: "too old resource version: N (N)"},
	{Pattern: regexp.MustCompile(`10\.0\.0\.(\d{2,3}|[2-9])\b`), With: "CLUSTER-IP"}, // all but that of the Service kubernetes
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
	both.Normaliser
	host, port string
	uids       map[string]string
}

func newNormaliser(s *side) *normaliser {
	return normaliserOf(strings.TrimPrefix(s.URL, "https://"), s.uids)
}

func normaliserOf(host string, uids map[string]string) *normaliser {
	_, port, _ := strings.Cut(host, ":")
	n := &normaliser{host: host, port: port, uids: uids}
	n.Normaliser = both.Normaliser{Volatile: volatile, Fields: volatileFields, Sets: sets, Own: n.field, OwnText: n.text, OwnNumber: n.number}
	return n
}

// headers returns the headers with what is comparable of their values.
func (n *normaliser) headers(header http.Header) map[string]any {
	result := map[string]any{}
	for name, values := range header {
		switch {
		case slices.Contains(unstable, name):
		case slices.Contains(presenceOnly, name):
			result[name] = "PRESENT"
		default:
			all := make([]any, 0, len(values))
			for _, value := range values {
				all = append(all, n.Text(value))
			}
			slices.SortFunc(all, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			result[name] = all
		}
	}
	return result
}

func (n *normaliser) number(number json.Number) any {
	if number.String() == n.port {
		return "PORT"
	}
	return number
}

// field decides about volatile fields that are no text, but for schemas of them, and about the cells of tables.
func (n *normaliser) field(name string, value any) (any, bool) {
	if with, found := volatileFields[name]; found {
		switch value.(type) {
		case string, map[string]any:
		default:
			return with, true
		}
	}
	if list, isList := value.([]any); isList && name == "cells" {
		return n.cells(list), true
	}
	return nil, false
}

func (n *normaliser) cells(cells []any) []any {
	result := make([]any, len(cells))
	for i, cell := range cells {
		if text, isString := cell.(string); isString && age.MatchString(text) {
			result[i] = "AGE"
			continue
		} else if isString {
			cell = ports.ReplaceAllString(text, "$1:NODE-PORT/TCP")
		}
		result[i] = n.Value(cell)
	}
	return result
}

// text replaces what only this cluster has.
func (n *normaliser) text(text string) string {
	if name, found := n.uids[text]; found {
		return "UID of " + name
	}
	text = certificate.ReplaceAllStringFunc(text, subject)
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
