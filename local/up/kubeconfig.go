// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"fmt"
	"os"

	"github.com/tripod-k8s/tripod/internal/certs"
	"github.com/tripod-k8s/tripod/internal/service/atomicfile"
)

// contextName is the name of the cluster, the user and the context in the kubeconfig.
const contextName = "tripod"

// writeKubeconfig writes a kubeconfig that needs no other file.
func writeKubeconfig(path, server string, store *certs.Store) error {
	var contents [3][]byte
	for i, file := range []string{store.CertFile(clusterCA), store.CertFile(admin), store.KeyFile(admin)} {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("cannot write the kubeconfig: %w", err)
		}
		contents[i] = data
	}
	data, err := certs.EncodeKubeconfig(certs.Kubeconfig{
		Name: contextName, Server: server, Authority: contents[0], Certificate: contents[1], Key: contents[2],
	})
	if err != nil {
		return err
	}
	return atomicfile.Write(path, data)
}
