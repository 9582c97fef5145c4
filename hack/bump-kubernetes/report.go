// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// specs is the list of conformance specs, which belongs to one version.
const specs = "lab/conformance/specs.txt"

// report says what a person must look at.
func report(out io.Writer, before, after state) error {
	insides, errOfInsides := output("go", "run", "-trimpath", "./hack/kubernetes-insides")
	if errOfInsides != nil {
		insides += errOfInsides.Error()
	}
	changed, err := changedFiles()
	if err != nil {
		return err
	}
	// Examples that name a version may keep an old one. git grep fails if there are none.
	naming, _ := output("git", "grep", "--name-only", "--fixed-strings", "-e", before.version, "-e", strings.TrimPrefix(before.etcd, "v"),
		"--", "*.md", "*.txt", "*.yaml", "*.tmpl", "*_test.go")
	_, err = io.WriteString(out, summary(before, after, errOfInsides != nil, insides, changed, strings.Fields(naming)))
	return err
}

// summary is the text of the report.
func summary(before, after state, differ bool, insides string, changed, naming []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nKubernetes %s -> %s, etcd %s -> %s. What a person must look at:\n",
		before.version, after.version, before.etcd, after.etcd)

	b.WriteString("\n1. Declarations of Kubernetes that Tripod leans on:")
	if differ {
		b.WriteString("\n" + indent(insides))
	} else {
		b.WriteString(" none changed.\n")
	}

	b.WriteString("\n2. Admission plugins (services/shared/plugins/table.go lists them, and says what each is about):")
	b.WriteString(difference(before.plugins, after.plugins))

	b.WriteString("\n3. Flags of kube-apiserver (local/kubeapiserver/routes.go decides which service gets which):")
	b.WriteString(difference(before.flags, after.flags))

	b.WriteString("\n4. Feature gates, with their defaults:")
	b.WriteString(differenceOfGates(before.gates, after.gates))

	b.WriteString("\n5. Files that changed, as `git diff` shows:\n")
	for _, file := range changed {
		b.WriteString("   " + file + "\n")
	}

	fmt.Fprintf(&b, "\n6. The list of conformance specs, %s, belongs to a version: "+
		"make conformance-refresh finds those of %s\n", specs, after.version)
	if len(after.ahead) > 0 {
		b.WriteString("\n7. Modules that Tripod requires in a newer version than Kubernetes, " +
			"mostly because of vulnerabilities. Tests decide whether they go together:\n")
		for _, module := range after.ahead {
			b.WriteString("   " + module + "\n")
		}
	}
	if len(naming) > 0 && before.version != after.version {
		fmt.Fprintf(&b, "\n8. These name %s or etcd %s, most of them in examples:\n", before.version, before.etcd)
		for _, file := range naming {
			b.WriteString("   " + file + "\n")
		}
	}
	fmt.Fprintf(&b, "\n9. The urgent upgrade notes of Kubernetes %s (CHANGELOG-%s.md in its repository).\n",
		after.version, strings.TrimPrefix(semver.MajorMinor(after.version), "v"))
	if semver.MajorMinor(before.version) != semver.MajorMinor(after.version) {
		b.WriteString(newMinor(before.version, after.version))
	}
	b.WriteString("\nThen: make type-check refresh-advisories verify test conformance kubectl-suite\n" +
		"Before a release: make test-upgrade test-emulated test-emulated-older e2e-upgrade e2e-kubeadm conformance-cluster operators\n")
	return b.String()
}

// newMinor says what belongs to a move to another minor version.
func newMinor(before, after string) string {
	of := func(version string) string { return strings.TrimPrefix(semver.MajorMinor(version), "v") }
	return fmt.Sprintf("\n10. Another minor version (CONTRIBUTING.md, step 5):\n"+
		"   kube/%s has the module files that the root had, and the oldest folder of kube/ goes\n"+
		"   .github/workflows/ci.yaml and nightly.yaml list the versions of kube/\n"+
		"   docs/kubernetes-versions.md has a row for %s, with the date until which Kubernetes mends it\n", of(before), of(after))
}

// difference lists what is new and what is gone.
func difference(before, after []string) string {
	var b strings.Builder
	for _, name := range after {
		if !slices.Contains(before, name) {
			b.WriteString("\n   new:  " + name)
		}
	}
	for _, name := range before {
		if !slices.Contains(after, name) {
			b.WriteString("\n   gone: " + name)
		}
	}
	if b.Len() == 0 {
		return " the same.\n"
	}
	return b.String() + "\n"
}

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		b.WriteString(strings.TrimRight("   "+line, " \n") + "\n")
	}
	return b.String()
}
