// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/util/version"
	baseversion "k8s.io/component-base/version"
)

func TestDataOfANewerVersionIsRefused(t *testing.T) {
	own := version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion)
	minor := func(add int) string { return fmt.Sprintf("%d.%d", own.Major(), int(own.Minor())+add) }
	emulating := func(values ...string) *Options {
		return &Options{Shared: map[string][]string{"emulated-version": values}}
	}
	for name, test := range map[string]struct {
		before  string
		options *Options
		after   string
		err     string
	}{
		"new":                            {"", &Options{}, minor(0), ""},
		"new, emulating":                 {"", emulating(minor(-1)), minor(-1), ""},
		"named":                          {"", emulating("kube=" + minor(-1)), minor(-1), ""},
		"one of several":                 {"", emulating("other=1.1,kube=" + minor(-2)), minor(-2), ""},
		"that services will not emulate": {"", emulating(minor(1)), minor(0), ""},
		"upgrade":                        {minor(-1), emulating(minor(-1)), minor(-1), ""},
		"upgrade, finalized":             {minor(-1), &Options{}, minor(0), ""},
		"emulating after that":           {minor(0), emulating(minor(-1)), minor(0), ""},
		"newer":                          {minor(1), &Options{}, minor(1), "in the form of Kubernetes " + minor(1)},
		"newer, emulating":               {minor(1), emulating(minor(-1)), minor(1), "in the form of Kubernetes " + minor(1)},
		"none":                           {"latest", &Options{}, "latest", "does not name a version of Kubernetes"},
	} {
		t.Run(name, func(t *testing.T) {
			d := DataDir(t.TempDir())
			if test.before != "" {
				require.NoError(t, os.WriteFile(d.versionFile(), []byte(test.before+"\n"), 0o600))
			}
			err := d.checkVersion(test.options)
			if test.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.err)
				assert.NotContains(t, err.Error(), "\n")
			}
			after, err := os.ReadFile(d.versionFile())
			require.NoError(t, err)
			assert.Equal(t, test.after+"\n", string(after))
		})
	}
}
