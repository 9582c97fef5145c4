// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"sigs.k8s.io/yaml"
)

// AdminConf is the kubeconfig of kubeadm for the administrator.
const AdminConf = "/etc/kubernetes/admin.conf"

// Node is a control-plane node whose static pods run Tripod.
type Node struct {
	// Manifests is the directory with the static pods, Logs that with the logs of pods, and PKI that with the keys of the static pods, which
	// the scrubber must know.
	Manifests, Logs, PKI string
	// Kubeconfig is that of an administrator, or empty for AdminConf. Context is one of it, or empty for the current one.
	Kubeconfig, Context string
}

// Sources returns the files of the node, and the API. The scrubber also knows all kubeconfigs beside the administrator's.
func (n Node) Sources() ([]Source, error) {
	files, err := staticPods(n.Manifests, n.Logs)
	if err != nil {
		return nil, err
	}
	kubeconfig := n.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = AdminConf
	}
	others, err := filepath.Glob(filepath.Join(filepath.Dir(kubeconfig), "*.conf"))
	if err != nil {
		return nil, err
	}
	files.SecretDirs = append(others, n.PKI, kubeconfig)
	return []Source{files, APIOf(kubeconfig, n.Context)}, nil
}

// APIOf returns the API of a kubeconfig. If the kubeconfig cannot be used, the archive says so and has the rest.
func APIOf(kubeconfig, contextName string) Source {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: contextName}).ClientConfig()
	if err != nil {
		return Missing(fmt.Sprintf("the API is not asked, because the kubeconfig %s cannot be used: %v", kubeconfig, err))
	}
	return &API{Config: config, Folder: "api"}
}

// staticPods returns the files of a node's static pods of Tripod: the manifests, and the logs of their containers.
func staticPods(manifests, logs string) (*Files, error) {
	found := &Files{Logs: map[string]string{}}
	entries, err := os.ReadDir(manifests)
	if err != nil {
		return nil, fmt.Errorf("cannot read the static pods of this node: %w", err)
	}
	for _, entry := range entries {
		path := filepath.Join(manifests, entry.Name())
		data, _, err := readEnd(path, maxKeyFile)
		if err != nil || !strings.HasSuffix(path, ".yaml") || !strings.Contains(string(data), "tripod") {
			continue
		}
		found.Manifests = append(found.Manifests, path)
		var pod corev1.Pod
		if err := yaml.Unmarshal(data, &pod); err != nil || pod.Name == "" {
			continue // readManifest says so
		}
		// The kubelet adds the name of the node.
		paths, err := filepath.Glob(filepath.Join(logs, fmt.Sprintf("%s_%s-*_*", pod.Namespace, pod.Name), "*", "*.log"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			container := filepath.Dir(path)
			name := strings.Join([]string{filepath.Base(filepath.Dir(container)), filepath.Base(container),
				strings.TrimSuffix(filepath.Base(path), ".log")}, "_")
			found.Logs[name] = path
		}
	}
	if len(found.Manifests) == 0 {
		return nil, fmt.Errorf("%s has no static pods of Tripod: run the command on a control-plane node, as root", manifests)
	}
	return found, nil
}
