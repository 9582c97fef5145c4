// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/stretchr/testify/require"
)

// SetPartSize sets how many bytes of a file go in one request, at least 5 MiB.
func SetPartSize(c *Client, bytes uint64) { c.partSize = bytes }

// Begin begins an upload that never ends.
func Begin(t *testing.T, c *Client, bucket, key string) {
	t.Helper()
	_, err := minio.Core{Client: c.quick}.NewMultipartUpload(t.Context(), bucket, key, minio.PutObjectOptions{})
	require.NoError(t, err)
}
