// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package split

import (
	"testing"

	"k8s.io/apiserver/pkg/storage/etcd3/testserver"
)

// BenchmarkRaise shows how long it takes to raise the revision of an etcd by one. It counts what the disk takes.
func BenchmarkRaise(b *testing.B) {
	s := &split{Options: Options{Progress: func(string) {}}, target: testserver.RunEtcd(b, nil).Client}
	from, err := revision(b.Context(), s.target)
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	if err := s.raise(b.Context(), from+int64(b.N)); err != nil {
		b.Fatal(err)
	}
}
