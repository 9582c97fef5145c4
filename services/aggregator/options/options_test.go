// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"strings"
	"testing"
)

func TestAddressesOfCore(t *testing.T) {
	tests := []struct {
		name      string
		addresses []string
		// wrong are the addresses that are complained about.
		wrong []string
	}{
		{name: "one", addresses: []string{"127.0.0.1:7444"}},
		{name: "several", addresses: []string{"core-0.core:7444", "core-1.core:7444", "[::1]:7444"}},
		{name: "none", wrong: []string{"required"}},
		{name: "a URL", addresses: []string{"https://127.0.0.1:7444"}, wrong: []string{`"https://127.0.0.1:7444"`}},
		{name: "no port", addresses: []string{"core", "core:", "core:0", "core:http", "core:70000"},
			wrong: []string{`"core"`, `"core:"`, `"core:0"`, `"core:http"`, `"core:70000"`}},
		{name: "no host", addresses: []string{":7444", "core:7444", ""}, wrong: []string{`":7444"`, `""`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := validateAddresses("core-grpc-servers", test.addresses, []string{"https://a:1", "https://b:2", "https://c:3"}[:min(len(test.addresses), 3)])
			if len(errs) != len(test.wrong) {
				t.Fatalf("errors are %v, want %d", errs, len(test.wrong))
			}
			for i, err := range errs {
				if text := err.Error(); !strings.Contains(text, "--core-grpc-servers") || !strings.Contains(text, test.wrong[i]) {
					t.Errorf("error %q does not name the flag and %s", text, test.wrong[i])
				}
			}
		})
	}
}

func TestAdmissionPluginsOfOtherServicesAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"NamespaceLifecycle": "--enable-admission-plugins: NamespaceLifecycle does not belong here but to core and extensions",
		"LimitRanger":        "--enable-admission-plugins: LimitRanger does not belong here but to core,",
		"Nope":               `enable-admission-plugins plugin "Nope" is unknown`,
		"AlwaysDeny":         "",
	} {
		o := New()
		o.Admission.EnablePlugins = []string{name}
		errs := o.validateAdmission()
		if (len(errs) > 0) != (want != "") || (want != "" && !strings.HasPrefix(errs[0].Error(), want)) {
			t.Errorf("%s: errors are %v, want %q", name, errs, want)
		}
	}
}
