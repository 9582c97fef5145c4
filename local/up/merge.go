// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/tripod-k8s/tripod/base/certs/kubeconfig"
)

// Context returns the name of the context for the instance in the user's own kubeconfig.
func (d DataDir) Context() string {
	if name, isNamed := d.name(); isNamed && name != DefaultName {
		return contextName + "-" + name
	}
	return contextName
}

// Merge adds the instance to the user's own kubeconfig, and makes it the current context. It returns the path of that file. It refuses to
// replace an entry that is not of this instance.
func Merge(d DataDir) (path string, err error) {
	entry, err := d.entry()
	if err != nil {
		return "", err
	}
	path, _, err = entry.Merge("this instance", "use --kubeconfig="+d.Kubeconfig())
	return path, err
}

// Unmerge removes what Merge has added. It reports whether there was anything.
func Unmerge(d DataDir) (removed bool, err error) {
	entry, err := d.entry()
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return entry.Unmerge("")
}

// entry returns what the user's own kubeconfig gets of the instance.
func (d DataDir) entry() (*kubeconfig.Entry, error) {
	path, err := d.TrustedKubeconfig()
	if err != nil {
		return nil, err
	}
	own, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	entry := &kubeconfig.Entry{Name: d.Context(), Cluster: own.Clusters[contextName], User: own.AuthInfos[contextName]}
	if entry.Cluster == nil || entry.User == nil {
		return nil, fmt.Errorf("%s has no cluster %s", path, contextName)
	}
	return entry, nil
}
