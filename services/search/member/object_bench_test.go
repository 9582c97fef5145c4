// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tripod-k8s/tripod/services/search/store/streams"
)

// BenchmarkNewObject reads a pod of 3 kB.
func BenchmarkNewObject(b *testing.B) {
	var fields strings.Builder
	for i := range 15 {
		fmt.Fprintf(&fields, `"f:spec%d":{"f:containers":{".":{}}},`, i)
	}
	text := fmt.Appendf(nil, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"default","uid":"0f9e3b0c","resourceVersion":"12345","creationTimestamp":"2026-01-02T03:04:05Z",`+
		`"labels":{"app":"web","team":"team-7"},"annotations":{"example.com/checked":"yes"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"7ab"}],`+
		`"managedFields":[{"manager":"kubectl","operation":"Apply","fieldsV1":{%s"f:x":{}}}]},"spec":{"containers":[%s{"image":"i"}]}}`,
		fields.String(), strings.Repeat(`{"name":"c","image":"example.com/shop/front:1.3","env":[{"name":"A","value":"b"}]},`, 23))
	pods := streams.Kind{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Name: "Pod", Namespaced: true}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, err := NewObject("east", pods, text)
		require.NoError(b, err)
	}
}
