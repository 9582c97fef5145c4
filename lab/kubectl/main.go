// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectlsuite runs Kubernetes' own tests of kubectl, the scripts in test/cmd, with a stock kube-apiserver and with Tripod in its
// place, and reports differences. It exits with 1 if a test passes on stock and not on Tripod.
//
// The scripts come from the module k8s.io/kubernetes in go.mod. They start etcd, the API server and kube-controller-manager themselves.
// Tripod runs as `tripod kube-apiserver`, with the flags that the scripts give to kube-apiserver. The results of stock stay in
// bin/kubectl-suite until the version of Kubernetes changes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/tripod-k8s/tripod/lab/kept"
	"github.com/tripod-k8s/tripod/test/framework"
)

const (
	cacheDir  = "bin/kubectl-suite"
	logDir    = "artifacts/kubectl-suite"
	assetsDir = "bin/test-assets"
	tripodBin = "bin/tripod"
)

// errDiffers is returned after the differences are printed.
var errDiffers = errors.New("tests that pass on stock fail on Tripod")

func main() { framework.RunCommand("kubectlsuite", kubectlsuite) }

func kubectlsuite(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("kubectlsuite", flag.ContinueOnError)
	only := flags.String("only", ".", "run only tests whose name, such as run_pod_tests, matches this regular expression")
	if err := framework.ParseFlags(flags, args); err != nil {
		return err
	}
	if _, err := regexp.CompilePOSIX(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	onStock, err := stockResults(ctx, *only)
	if err != nil {
		return err
	}
	onTripod, err := runSuite(ctx, tripodSide, *only)
	if err != nil {
		return err
	}
	if report(os.Stdout, onStock, onTripod) > 0 {
		return errDiffers
	}
	return nil
}

// stockResults returns the results of stock, from an earlier run if there was one.
func stockResults(ctx context.Context, only string) (results, error) {
	version, err := framework.VersionOf(ctx, filepath.Join(assetsDir, apiServer))
	if err != nil {
		return nil, err
	}
	known, err := kept.Open[results](cacheDir, stockSide, version, "")
	if err != nil {
		return nil, err
	}
	if found, isKnown := known.Results[only]; isKnown {
		return found, nil
	}
	found, err := runSuite(ctx, stockSide, only)
	if err != nil {
		return nil, err
	}
	if !found[between].Passed {
		return nil, fmt.Errorf("the scripts did not come to their end on stock:\n%s", indent(found[between].Output))
	}
	known.Results[only] = found
	return found, known.Save()
}
