// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"bytes"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Entry is a cluster, its user and the context for both, which have the same name in the user's own kubeconfig: the one that kubectl uses
// ($KUBECONFIG or ~/.kube/config).
type Entry struct {
	Name    string
	Cluster *clientcmdapi.Cluster
	User    *clientcmdapi.AuthInfo
}

// Merge adds the entry to the user's own kubeconfig and makes it the current context. It returns the path of that file, and the context
// that was current before, if that was another. It refuses to replace an entry with another certificate authority. Such errors name the
// owner of the entry, as in "this instance", and what the user can do instead.
func (e *Entry) Merge(owner, instead string) (path, former string, err error) {
	options := clientcmd.NewDefaultPathOptions()
	users, err := options.GetStartingConfig()
	if err != nil {
		return "", "", err
	}
	path = options.GetDefaultFilename()
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", "", fmt.Errorf("others can read %s, and the entry has the key of an administrator: chmod 600 it, or %s", path, instead)
	}
	for kind, exists := range map[string]bool{
		"cluster": users.Clusters[e.Name] != nil, "user": users.AuthInfos[e.Name] != nil, "context": users.Contexts[e.Name] != nil,
	} {
		if exists && !e.isIn(users) {
			return "", "", fmt.Errorf("%s has a %s %q that is not of %s: rename it, or %s", path, kind, e.Name, owner, instead)
		}
	}
	if users.CurrentContext != e.Name {
		former = users.CurrentContext
	}
	cluster, user := e.Cluster.DeepCopy(), e.User.DeepCopy()
	cluster.LocationOfOrigin, user.LocationOfOrigin = "", ""
	users.Clusters[e.Name], users.AuthInfos[e.Name] = cluster, user
	users.Contexts[e.Name] = &clientcmdapi.Context{Cluster: e.Name, AuthInfo: e.Name}
	users.CurrentContext = e.Name
	return path, former, clientcmd.ModifyConfig(options, *users, false)
}

// Unmerge removes what Merge has added. If it is the current context, the former one becomes current again. Unmerge reports whether there
// was anything to remove.
func (e *Entry) Unmerge(former string) (removed bool, err error) {
	options := clientcmd.NewDefaultPathOptions()
	users, err := options.GetStartingConfig()
	if err != nil || !e.isIn(users) {
		return false, err
	}
	delete(users.Clusters, e.Name)
	delete(users.AuthInfos, e.Name)
	delete(users.Contexts, e.Name)
	if users.CurrentContext == e.Name {
		users.CurrentContext = ""
		if users.Contexts[former] != nil {
			users.CurrentContext = former
		}
	}
	return true, clientcmd.ModifyConfig(options, *users, false)
}

// Replaced reports whether the user's kubeconfig has the entry with another server.
func (e *Entry) Replaced() (bool, error) {
	users, err := clientcmd.NewDefaultPathOptions().GetStartingConfig()
	return err == nil && e.isIn(users) && users.Clusters[e.Name].Server != e.Cluster.Server, err
}

// isIn reports whether a kubeconfig has the entry: only that has its certificate authority.
func (e *Entry) isIn(users *clientcmdapi.Config) bool {
	cluster := users.Clusters[e.Name]
	return cluster != nil && bytes.Equal(cluster.CertificateAuthorityData, e.Cluster.CertificateAuthorityData)
}
