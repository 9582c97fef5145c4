// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bucket keeps files in a bucket of an S3-compatible server:
//
//	client, err := bucket.Server{Endpoint: "https://s3.example.com"}.Connect(ctx)
//	url, err := bucket.Parse("s3://backups/tripod/etcd.db")
//	tag, err := client.Put(ctx, url, file, metadata, progress)
//	err = client.Read(ctx, url, tag, size, writer)
//
// Transfers survive a cut of some seconds: they continue at the part, or at the byte, where the cut was. Errors are one line, and name the
// server and the bucket, never a credential.
package bucket
