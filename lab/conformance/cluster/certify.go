// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"text/template"

	"github.com/onsi/ginkgo/v2/reporters"

	"github.com/tripod-k8s/tripod/lab/e2esuite"
)

//go:embed PRODUCT.yaml.tmpl
var product string

//go:embed README.md.tmpl
var readme string

// certify writes the files that the certification programme requires: e2e.log, junit_01.xml, PRODUCT.yaml and README.md
// (github.com/cncf/k8s-conformance, instructions.md). They have what has run so far. Stock needs no certificate.
func (k *kept) certify(suite map[string]bool) error {
	if k.form() == stockForm {
		return nil
	}
	if err := k.joinLogs(); err != nil {
		return err
	}
	if err := k.writeJUnit(); err != nil {
		return err
	}
	for file, text := range map[string]string{"PRODUCT.yaml": product, "README.md": readme} {
		if err := writeTemplate(filepath.Join(k.Dir, file), text, map[string]any{"Kept": k, "Passed": e2esuite.Results(k.Results).Count(), "Total": len(suite)}); err != nil {
			return err
		}
	}
	return nil
}

// joinLogs writes the logs of all runs, in their order, to e2e.log.
func (k *kept) joinLogs() (err error) {
	logs, err := filepath.Glob(filepath.Join(k.Dir, "ginkgo-*.log"))
	if err != nil {
		return err
	}
	joined, err := os.Create(filepath.Join(k.Dir, "e2e.log"))
	if err != nil {
		return fmt.Errorf("join the logs: %w", err)
	}
	defer func() {
		if closed := joined.Close(); err == nil {
			err = closed
		}
	}()
	for _, path := range logs {
		log, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("join the logs: %w", err)
		}
		_, err = io.Copy(joined, log)
		log.Close() //nolint:errcheck // only read
		if err != nil {
			return fmt.Errorf("join the logs: %w", err)
		}
	}
	return nil
}

// writeJUnit writes the last result of each spec to junit_01.xml, as ginkgo writes it.
func (k *kept) writeJUnit() error {
	suite := reporters.JUnitTestSuite{Name: "Kubernetes e2e suite", Package: "test/e2e"}
	for _, name := range slices.Sorted(maps.Keys(k.Results)) {
		result := k.Results[name]
		test := reporters.JUnitTestCase{
			Name: "[It] " + name, Classname: suite.Name, Status: result.State.String(), Time: result.Took.Seconds(),
		}
		if !result.Passed() {
			test.Failure = &reporters.JUnitFailure{Message: result.Failure, Type: result.State.String(), Description: result.Failure}
			suite.Failures++
		}
		suite.Tests++
		suite.Time += test.Time
		suite.TestCases = append(suite.TestCases, test)
	}
	data, err := xml.MarshalIndent(reporters.JUnitTestSuites{
		Tests: suite.Tests, Failures: suite.Failures, Time: suite.Time, TestSuites: []reporters.JUnitTestSuite{suite},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(k.Dir, "junit_01.xml"), append([]byte(xml.Header), data...), 0o644)
}

func writeTemplate(path, text string, data any) (err error) {
	parsed, err := template.New(filepath.Base(path)).Parse(text)
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := file.Close(); err == nil {
			err = closed
		}
	}()
	return parsed.Execute(file, data)
}
