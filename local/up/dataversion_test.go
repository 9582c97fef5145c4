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
		"of each service":                {"", &Options{CoreArgs: []string{"--emulated-version", minor(-1)}}, minor(-1), ""},
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
			err := d.checkVersion()
			if err == nil {
				err = d.rememberVersion(test.options.stored())
			}
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

// TestARefusedDirectoryStaysAsItIs has a directory of a newer version, with a kubeconfig of another port.
func TestARefusedDirectoryStaysAsItIs(t *testing.T) {
	own := version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion)
	d := DataDir(t.TempDir())
	require.NoError(t, os.WriteFile(d.versionFile(), fmt.Appendf(nil, "%d.%d\n", own.Major(), own.Minor()+1), 0o600))
	require.NoError(t, os.WriteFile(d.Kubeconfig(), []byte("of the newer version"), 0o600))
	options := DefaultOptions()
	options.DataDir, options.Port = string(d), 0
	require.NoError(t, options.Validate())
	i := &instance{options: &options, dataDir: d}
	require.ErrorContains(t, i.prepare(t.Context()), "in the form of Kubernetes")
	left, err := os.ReadDir(string(d))
	require.NoError(t, err)
	assert.Len(t, left, 2, "nothing is added")
	kubeconfig, err := os.ReadFile(d.Kubeconfig())
	require.NoError(t, err)
	assert.Equal(t, "of the newer version", string(kubeconfig))
}

func TestOnlyVersionsThatServicesEmulateAreAccepted(t *testing.T) {
	own := version.MustParseGeneric(baseversion.DefaultKubeBinaryVersion)
	minor := func(add int) string { return fmt.Sprintf("%d.%d", own.Major(), int(own.Minor())+add) }
	choice := minor(-3) + " to " + minor(0)
	for value, want := range map[string]string{
		minor(0): "", minor(-3): "", "kube=" + minor(-1): "", "other=1.1": "",
		"1.20": "1.20 is not among the versions that this Tripod emulates: " + choice, "kube=" + minor(-4): choice, minor(1): choice,
		"latest": "is not a version of Kubernetes", "": "is not a version of Kubernetes",
	} {
		t.Run(value, func(t *testing.T) {
			options := DefaultOptions()
			options.Shared = map[string][]string{"emulated-version": {value}}
			arg := []string{"--emulated-version=" + value}
			ofEach := DefaultOptions()
			ofEach.CoreArgs, ofEach.ExtensionsArgs, ofEach.AggregatorArgs = arg, arg, arg
			for _, o := range []Options{options, ofEach} {
				if err := o.Validate(); want == "" {
					assert.NoError(t, err)
				} else if assert.ErrorContains(t, err, want) {
					assert.NotContains(t, err.Error(), "\n")
				}
			}
		})
	}
}
