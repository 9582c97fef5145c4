// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdversion

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOldMinorVersionsAreNotSupported(t *testing.T) {
	for version, supported := range map[string]bool{
		"2.3.8": false, "3.3.27": false, "3.4.44": false, "3.4.0-rc.1": false,
		"3.5.0": true, "3.5.0-alpha.0": true, "3.6.1": true, "3.7.3": true, "4.0.0": true,
		"": true, "latest": true, "3.4": true,
	} {
		err := CheckSupported(version)
		assert.Equal(t, supported, err == nil, "%s: %v", version, err)
		if err != nil {
			assert.ErrorIs(t, err, ErrTooOld)
			assert.True(t, strings.HasPrefix(err.Error(), "etcd "+version+" is too old"), err.Error())
			assert.NotContains(t, err.Error(), "\n")
		}
	}
}
