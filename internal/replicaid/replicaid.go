// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicaid names replicas of API servers. kube-apiserver derives its identity from the host name alone, so
// that two on one host take each other's identity Lease; here the name of the replica counts too.
package replicaid

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"os"
	"strings"
)

// New returns the API server identity of a replica of a service on this host, in the form of kube-apiserver's
// ("apiserver-" and 26 characters).
func New(service, replica string) (string, error) {
	hostname, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host name: %w", err)
	}
	return forHost(hostname, service, replica), nil
}

func forHost(hostname, service, replica string) string {
	hash := sha256.New()
	for _, part := range []string{hostname, service, replica} {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	encoding := base32.StdEncoding.WithPadding(base32.NoPadding)
	return "apiserver-" + strings.ToLower(encoding.EncodeToString(hash.Sum(nil)[:16]))
}
