// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package connect

import (
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/tripod-k8s/tripod/base/certs/kubeconfig"
)

// MergeKubeconfig adds an entry to the user's own kubeconfig, and makes it current. It returns the path of the file, and a function that
// removes the entry.
func MergeKubeconfig(entry *kubeconfig.Entry) (path string, remove func() error, err error) {
	path, former, err := entry.Merge("this release", "leave out --merge-kubeconfig")
	return path, func() error {
		// A second connection to this release has replaced the entry, and removes it.
		if replaced, err := entry.Replaced(); err != nil || replaced {
			return err
		}
		_, err := entry.Unmerge(former)
		return err
	}, err
}

// WriteKubeconfig writes an entry into a kubeconfig of its own, and returns a function that removes the file.
func WriteKubeconfig(entry *kubeconfig.Entry) (path string, remove func() error, err error) {
	dir, err := os.MkdirTemp("", "tripod-connect-")
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "kubeconfig")
	config := clientcmdapi.NewConfig()
	config.Clusters[entry.Name], config.AuthInfos[entry.Name] = entry.Cluster, entry.User
	config.Contexts[entry.Name] = &clientcmdapi.Context{Cluster: entry.Name, AuthInfo: entry.Name}
	config.CurrentContext = entry.Name
	remove = func() error { return os.RemoveAll(dir) }
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	return path, remove, nil
}
