// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package loopback

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
)

func TestWhereWebhooksAreReached(t *testing.T) {
	for name, test := range map[string]struct {
		endpointRouting  bool
		namespace, name  string
		port             int32
		want, wantsError string
	}{
		"by cluster IP":              {namespace: "hooks", name: "hook", port: 443, want: "https://10.0.0.7:443"},
		"by endpoint":                {endpointRouting: true, namespace: "hooks", name: "hook", port: 443, want: "https://192.0.2.9:8443"},
		"kubernetes":                 {namespace: "default", name: "kubernetes", port: 443, want: "https://kubernetes.default.svc:443"},
		"kubernetes by endpoint":     {endpointRouting: true, namespace: "default", name: "kubernetes", port: 443, want: "https://kubernetes.default.svc:443"},
		"kubernetes at another port": {namespace: "default", name: "kubernetes", port: 6443, wantsError: "not found"},
		"an unknown Service":         {namespace: "hooks", name: "other", port: 443, wantsError: "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			factory := informers.NewSharedInformerFactory(nil, 0)
			resolver, err := NewServiceResolver(factory, test.endpointRouting)
			require.NoError(t, err)
			meta := metav1.ObjectMeta{Namespace: "hooks", Name: "hook", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}}
			require.NoError(t, factory.Core().V1().Services().Informer().GetIndexer().Add(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.0.0.7", Ports: []corev1.ServicePort{{Port: 443}},
			}}))
			port, ready := int32(8443), true
			require.NoError(t, factory.Discovery().V1().EndpointSlices().Informer().GetIndexer().Add(&discoveryv1.EndpointSlice{
				ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(string), Port: &port}},
				Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.9"}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
			}))
			got, err := resolver.ResolveEndpoint(test.namespace, test.name, test.port)
			if test.wantsError != "" {
				require.ErrorContains(t, err, test.wantsError)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, test.want, got.String())
		})
	}
}
