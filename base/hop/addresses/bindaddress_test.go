// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses

import (
	"net"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flag returns a flag that was given.
func flag(t *testing.T, address string) *BindFlag {
	t.Helper()
	f := &BindFlag{Name: "some-bind-address", Usage: "Where."}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddFlags(fs)
	require.NoError(t, fs.Parse([]string{"--some-bind-address=" + address}))
	return f
}

func TestAPortThatIsTakenIsAnErrorThatNamesTheFlag(t *testing.T) {
	first, err := flag(t, "127.0.0.1:0").Listen()
	require.NoError(t, err)
	defer first.Close()
	if _, err := flag(t, first.Addr().String()).Listen(); err == nil || !strings.Contains(err.Error(), "--some-bind-address") {
		t.Errorf("error is %v", err)
	}
}

func TestNowhere(t *testing.T) {
	f := flag(t, "")
	if errs := f.Validate(); len(errs) != 0 {
		t.Error(errs)
	}
	var nothing net.Listener
	if listener, err := f.Listen(); listener != nothing || err != nil {
		t.Errorf("listens at %v, %v", listener, err)
	}
}

func TestValidate(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:8080": true, "[::1]:8080": true, ":8080": true, "8080": false, "::1:8080": false} {
		errs := flag(t, address).Validate()
		assert.Equal(t, want, len(errs) == 0, "%q: errors are %v", address, errs)
	}
}
