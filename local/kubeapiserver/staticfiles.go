// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"
)

// pathUse says what a service does with a path.
type pathUse int

const (
	// reads is for a file, or for a directory whose files the service reads.
	reads pathUse = iota
	// readsConfig is for a file that names other files.
	readsConfig
	// connects is for the socket of another program. A service also accepts URLs and abstract sockets, which are no files.
	connects
	// writes is for a file that the service makes, and others beside it.
	writes
)

// pathFlags are the flags of the services that name paths.
var pathFlags = map[string]pathUse{
	"admission-control-config-file":            readsConfig,
	"audit-log-path":                           writes,
	"audit-policy-file":                        reads,
	"audit-webhook-config-file":                readsConfig,
	"authentication-config":                    reads,
	"authentication-token-webhook-config-file": readsConfig,
	"authorization-config":                     readsConfig,
	"authorization-policy-file":                reads,
	"authorization-webhook-config-file":        readsConfig,
	"client-ca-file":                           reads,
	"debug-socket-path":                        writes,
	"egress-selector-config-file":              readsConfig,
	"encryption-provider-config":               readsConfig,
	"etcd-cafile":                              reads,
	"etcd-certfile":                            reads,
	"etcd-keyfile":                             reads,
	"etcd-servers":                             connects,
	"group-etcd-cafile":                        reads,
	"group-etcd-certfile":                      reads,
	"group-etcd-keyfile":                       reads,
	"kubelet-certificate-authority":            reads,
	"kubelet-client-certificate":               reads,
	"kubelet-client-key":                       reads,
	"oidc-ca-file":                             reads,
	"proxy-client-cert-file":                   reads,
	"proxy-client-key-file":                    reads,
	"requestheader-client-ca-file":             reads,
	"service-account-key-file":                 reads,
	"service-account-signing-endpoint":         connects,
	"service-account-signing-key-file":         reads,
	"service-ca-file":                          reads,
	"service-cert-file":                        reads,
	"service-key-file":                         reads,
	"tls-cert-file":                            reads,
	"tls-private-key-file":                     reads,
	"tls-sni-cert-key":                         reads,
	"token-auth-file":                          reads,
	"tracing-config-file":                      reads,
}

// pathKeys are the keys that name paths in the files of [readsConfig].
var pathKeys = map[string]pathUse{
	// AdmissionConfiguration, the configuration of plugins, and AuthorizationConfiguration
	"path":               readsConfig,
	"kubeConfigFile":     readsConfig,
	"staticManifestsDir": reads,
	// kubeconfig
	"certificate-authority": reads,
	"client-certificate":    reads,
	"client-key":            reads,
	"tokenFile":             reads,
	// EgressSelectorConfiguration
	"caBundle":   reads,
	"clientKey":  reads,
	"clientCert": reads,
	"udsName":    connects,
	// EncryptionConfiguration
	"endpoint": connects,
}

// paths are the paths of the host that a replica uses.
type paths struct {
	service serviceName
	// files are read. sockets are of other programs. written are files that the replica makes.
	files, sockets, written sets.Set[string]
}

// pathsOf returns the paths that a replica with these arguments uses. It reads the files that name others.
func pathsOf(service serviceName, args []string) (*paths, error) {
	p := &paths{service: service, files: sets.New[string](), sockets: sets.New[string](), written: sets.New[string]()}
	last := map[string][]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if _, names := pathFlags[name]; !names || value == "" || value == "-" {
			continue
		}
		switch name {
		case "service-account-key-file": // adds to those before it
			last[name] = append(last[name], value)
		case "tls-sni-cert-key": // adds to those before it: CERT,KEY:DOMAINS
			pair, _, _ := strings.Cut(value, ":")
			last[name] = append(last[name], strings.Split(pair, ",")...)
		case "etcd-servers":
			last[name] = strings.Split(value, ",")
		default:
			last[name] = []string{value}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(last)) {
		for _, value := range last[name] {
			if err := p.add(pathFlags[name], value, ""); err != nil {
				return nil, fmt.Errorf("--%s: %w", name, err)
			}
		}
	}
	return p, nil
}

// add adds a path. A relative one is beside the file that names it.
func (p *paths) add(use pathUse, path, beside string) error {
	if use == connects {
		if path = strings.TrimPrefix(strings.TrimPrefix(path, "unix:"), "//"); !filepath.IsAbs(path) {
			return nil
		}
	}
	if !filepath.IsAbs(path) {
		if beside == "" {
			return fmt.Errorf("%s is not absolute, and a static pod has no directory to begin at", path)
		}
		path = filepath.Join(beside, path)
	}
	path = filepath.Clean(path)
	switch use {
	case connects:
		p.sockets.Insert(path)
	case writes:
		p.written.Insert(path)
	case reads:
		return p.addFile(path)
	case readsConfig:
		if p.files.Has(path) {
			return nil
		}
		if err := p.addFile(path); err != nil {
			return err
		}
		return p.addNamedIn(path)
	}
	return nil
}

// addFile adds a file, or the files of a directory.
func (p *paths) addFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.Mode().IsRegular():
		p.files.Insert(path)
		return nil
	case !info.IsDir():
		return fmt.Errorf("%s is neither a file nor a directory", path)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		inside := filepath.Join(path, entry.Name())
		if info, err := os.Stat(inside); err == nil && info.Mode().IsRegular() {
			p.files.Insert(inside)
		}
	}
	return nil
}

// addNamedIn adds the paths that a configuration file names. The service itself reports a file that is no configuration.
func (p *paths) addNamedIn(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var document map[string]any
	if yaml.Unmarshal(content, &document) != nil {
		return nil //nolint:nilerr // the service says so
	}
	if document["kind"] == "AdmissionConfiguration" {
		document["plugins"] = p.ownPlugins(document["plugins"])
	}
	if err := p.addNamedBy(document, filepath.Dir(file)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// ownPlugins returns the configuration of the admission plugins that the service has.
func (p *paths) ownPlugins(plugins any) any {
	all, isList := plugins.([]any)
	own, limited := pluginsOf[program(p.service)]
	if !isList || !limited {
		return plugins
	}
	return slices.DeleteFunc(all, func(plugin any) bool {
		fields, _ := plugin.(map[string]any)
		name, _ := fields["name"].(string)
		return !slices.Contains(own.Names(), name)
	})
}

func (p *paths) addNamedBy(value any, dir string) error {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			if err := p.addNamedBy(item, dir); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			path, isString := value[key].(string)
			use, namesPath := pathKeys[key]
			err := error(nil)
			if isString && namesPath && path != "" {
				err = p.add(use, path, dir)
			} else {
				err = p.addNamedBy(value[key], dir)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
