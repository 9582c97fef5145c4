// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Context returns the name of the context for the instance in the user's own kubeconfig.
func (d DataDir) Context() string {
	if name, isNamed := d.name(); isNamed && name != DefaultName {
		return contextName + "-" + name
	}
	return contextName
}

// Merge adds the instance to the user's own kubeconfig, which kubectl uses ($KUBECONFIG or ~/.kube/config), and makes it the current
// context. It returns the path of that file. It refuses to replace an entry that is not of this instance.
func Merge(d DataDir) (path string, err error) {
	own, users, err := d.bothKubeconfigs()
	if err != nil {
		return "", err
	}
	options := clientcmd.NewDefaultPathOptions()
	name := d.Context()
	if info, err := os.Stat(options.GetDefaultFilename()); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("others can read %s, and the entry has the key of an administrator: chmod 600 it, or use --kubeconfig=%s",
			options.GetDefaultFilename(), d.Kubeconfig())
	}
	for kind, entry := range map[string]bool{
		"cluster": users.Clusters[name] != nil, "user": users.AuthInfos[name] != nil, "context": users.Contexts[name] != nil,
	} {
		if entry && !isOf(users, name, own) {
			return "", fmt.Errorf("%s has a %s %q that is not of this instance: rename it, or use --kubeconfig=%s", options.GetDefaultFilename(),
				kind, name, d.Kubeconfig())
		}
	}
	cluster, user := own.Clusters[contextName].DeepCopy(), own.AuthInfos[contextName].DeepCopy()
	cluster.LocationOfOrigin, user.LocationOfOrigin = "", ""
	users.Clusters[name], users.AuthInfos[name] = cluster, user
	users.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	users.CurrentContext = name
	return options.GetDefaultFilename(), clientcmd.ModifyConfig(options, *users, false)
}

// Unmerge removes what Merge has added. It reports whether there was anything.
func Unmerge(d DataDir) (removed bool, err error) {
	own, users, err := d.bothKubeconfigs()
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	name := d.Context()
	if !isOf(users, name, own) {
		return false, nil
	}
	delete(users.Clusters, name)
	delete(users.AuthInfos, name)
	delete(users.Contexts, name)
	if users.CurrentContext == name {
		users.CurrentContext = ""
	}
	return true, clientcmd.ModifyConfig(clientcmd.NewDefaultPathOptions(), *users, false)
}

// bothKubeconfigs returns the kubeconfig of the instance, and that of the user.
func (d DataDir) bothKubeconfigs() (own, users *clientcmdapi.Config, err error) {
	path, err := d.TrustedKubeconfig()
	if err != nil {
		return nil, nil, err
	}
	if own, err = clientcmd.LoadFromFile(path); err != nil {
		return nil, nil, err
	}
	if own.Clusters[contextName] == nil || own.AuthInfos[contextName] == nil {
		return nil, nil, fmt.Errorf("%s has no cluster %s", path, contextName)
	}
	users, err = clientcmd.NewDefaultPathOptions().GetStartingConfig()
	return own, users, err
}

// isOf reports whether an entry of the user's kubeconfig is of the instance: only that has its certificate authority.
func isOf(users *clientcmdapi.Config, name string, own *clientcmdapi.Config) bool {
	cluster := users.Clusters[name]
	return cluster != nil && bytes.Equal(cluster.CertificateAuthorityData, own.Clusters[contextName].CertificateAuthorityData)
}
