// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package endpoints

import (
	"testing"

	"github.com/stretchr/testify/require"

	endpointsv1 "github.com/tripod-k8s/tripod/proto/endpoints/v1"
)

// FuzzAddress accepts only what can be an endpoint of a Service.
func FuzzAddress(f *testing.F) {
	for _, address := range []string{"192.0.2.1", "::ffff:192.0.2.1", "2001:db8::1", "127.0.0.1", "0.0.0.0", "fe80::1%eth0", "169.254.0.1", "224.0.0.1", ""} {
		f.Add(address, uint32(6443))
	}
	f.Add("192.0.2.1", uint32(65536+443))
	f.Fuzz(func(t *testing.T, address string, port uint32) {
		accepted, err := addressOf(&endpointsv1.AdvertiseRequest{Address: address, Port: port})
		if err != nil {
			return
		}
		ip := accepted.Addr()
		require.Equal(t, port, uint32(accepted.Port()))
		require.True(t, ip.IsValid() && !ip.Is4In6() && ip.Zone() == "")
		require.False(t, ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || port == 0)
	})
}
