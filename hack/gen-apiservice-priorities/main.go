// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command gen-apiservice-priorities writes the table of APIService priorities that the aggregator gives to built-in group-versions.
// It reads them from the source of the pinned Kubernetes, because one of the tables there is unexported.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// sources are the files of k8s.io/kubernetes that hold priorities. A later one overrides
// an earlier one, as merge does in cmd/kube-apiserver/app/aggregator.go.
var sources = []string{
	"pkg/controlplane/apiserver/aggregator.go",
	"cmd/kube-apiserver/app/aggregator.go",
}

func main() {
	output := flag.String("output", "services/aggregator/apis/apiservices/priorities_generated.go", "file to write")
	packageName := flag.String("package", "apiservices", "package of the file")
	flag.Parse()
	if err := run(*output, *packageName); err != nil {
		fmt.Fprintln(os.Stderr, "gen-apiservice-priorities:", err)
		os.Exit(1)
	}
}

func run(output, packageName string) error {
	// `go list -m` names no folder for a module that no build has downloaded yet.
	out, err := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes").Output()
	if err != nil {
		return fmt.Errorf("find the source of k8s.io/kubernetes: %w", err)
	}
	var kubernetes struct{ Dir string }
	if err := json.Unmarshal(out, &kubernetes); err != nil {
		return fmt.Errorf("find the source of k8s.io/kubernetes: %w", err)
	}
	table := map[groupVersion]priority{}
	for _, source := range sources {
		if err := readPriorities(filepath.Join(kubernetes.Dir, source), table); err != nil {
			return err
		}
	}
	content, err := render(packageName, table)
	if err != nil {
		return err
	}
	return os.WriteFile(output, content, 0o644)
}
