// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"os"
	"strings"
)

// NewReplicaID returns the API server identity of a replica of a service on this host. It has the form of kube-apiserver's: "apiserver-"
// and 26 characters.
func NewReplicaID(service, replica string) (string, error) {
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
