// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package servicetest has helpers for tests of the options of all services.
package servicetest

import (
	"context"
	"maps"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"
)

// Flags are values of flags by name, without dashes.
type Flags map[string]string

// GoodFlags returns flags that every service needs.
func GoodFlags(t testing.TB) Flags {
	t.Helper()
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	require.NoError(t, err)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	require.NoError(t, cert.WriteCert(certFile, certPEM))
	require.NoError(t, keyutil.WriteKey(keyFile, keyPEM))
	return Flags{
		"service-ca-file": certFile, "service-cert-file": certFile, "service-key-file": keyFile,
		"etcd-servers": "http://127.0.0.1:2379",
		"bind-address": "127.0.0.1",
	}
}

// With returns the flags with some changed. An empty value removes a flag.
func (f Flags) With(changed Flags) Flags {
	all := maps.Clone(f)
	maps.Copy(all, changed)
	return all
}

// Options are the options of a service.
type Options[Completed any] interface {
	Flags() *cliflag.NamedFlagSets
	Validate() []error
	Complete(context.Context) (Completed, error)
}

// Complete parses the flags, and validates and completes the options, as the command of the service does.
func Complete[Completed any](t testing.TB, o Options[Completed], flags Flags) (Completed, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	for _, set := range o.Flags().FlagSets {
		fs.AddFlagSet(set)
	}
	var args []string
	for name, value := range flags {
		if value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	require.NoError(t, fs.Parse(args))
	if err := utilerrors.NewAggregate(o.Validate()); err != nil {
		var none Completed
		return none, err
	}
	return o.Complete(t.Context())
}

// Refusal is a flag that a service refuses.
type Refusal struct {
	Name, Flag, Value string
	// Want is a part of the error.
	Want string
}

// common lists the flags that every service refuses.
var common = []Refusal{
	{"no etcd", "etcd-servers", "", "--etcd-servers must be specified"},
	{"no service CA", "service-ca-file", "", "--service-ca-file: required"},
	{"a service certificate that does not exist", "service-cert-file", "missing.crt", "--service-cert-file: open missing.crt"},
	{"an address of probes without a port", "probe-bind-address", "127.0.0.1", "--probe-bind-address: "},
	{"a backends file that does not exist", "backends-file", "missing.yaml", "--backends-file: cannot read"},
}

// TestRefusals tests that a service refuses what all services refuse, and some more. good are flags that it accepts. replaced are the flags
// that --backends-file replaces.
func TestRefusals[O Options[Completed], Completed any](t *testing.T, newOptions func() O, good Flags, replaced []string, more ...Refusal) {
	for _, test := range append(common, more...) {
		t.Run(test.Name, func(t *testing.T) {
			flags := good.With(Flags{test.Flag: test.Value})
			if test.Flag == "backends-file" {
				for _, list := range replaced {
					flags[list] = ""
				}
			}
			_, err := Complete[Completed](t, newOptions(), flags)
			assert.ErrorContains(t, err, test.Want)
		})
	}
}
