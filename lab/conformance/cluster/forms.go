// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// form is what runs as the API server.
type form string

const (
	// stockForm is kube-apiserver.
	stockForm form = "stock"
	// dropInForm is `tripod kube-apiserver` in the static pod of kube-apiserver: three processes in one pod.
	dropInForm form = "drop-in"
	// staticPodsForm is what `tripod static-pods` makes: aggregator, core and extensions in a static pod each.
	staticPodsForm form = "static-pods"
	// rollingForm is static pods with several replicas of each service, which are restarted all the time.
	rollingForm form = "rolling"
)

// allForms are in the order in which they run: stock runs what does not pass on Tripod.
var allForms = []form{dropInForm, staticPodsForm, rollingForm, stockForm}

func formNames(forms []form) []string {
	var names []string
	for _, f := range forms {
		names = append(names, string(f))
	}
	return names
}

func parseForms(names string) ([]form, error) {
	given := strings.Split(names, ",")
	for _, name := range given {
		if !slices.Contains(allForms, form(name)) {
			return nil, fmt.Errorf("-form: %q is none of %s", name, strings.Join(formNames(allForms), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(allForms), func(f form) bool { return !slices.Contains(given, string(f)) }), nil
}
