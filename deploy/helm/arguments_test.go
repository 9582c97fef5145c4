// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"go.etcd.io/etcd/server/v3/embed"

	cliflag "k8s.io/component-base/cli/flag"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/tripod-k8s/tripod/base/hop/addresses"
	"github.com/tripod-k8s/tripod/console"
	aggregatoroptions "github.com/tripod-k8s/tripod/services/aggregator/options"
	coreoptions "github.com/tripod-k8s/tripod/services/core/options"
	extensionsoptions "github.com/tripod-k8s/tripod/services/extensions/options"
	searchserver "github.com/tripod-k8s/tripod/services/search/server"
)

// flagsOf returns the flags that the process of a container accepts.
func flagsOf(container string) *pflag.FlagSet {
	fs := pflag.NewFlagSet(container, pflag.ContinueOnError)
	if _, ok := addresses.PartitionOf(container); ok {
		container = "extensions"
	}
	var named *cliflag.NamedFlagSets
	switch container {
	case "aggregator":
		named = aggregatoroptions.New().Flags()
	case "core":
		named = coreoptions.New().Flags()
	case "extensions", "wardle": // the flags of an API service are among those of extensions
		named = extensionsoptions.New().Flags()
	case "search", "search-sync":
		named = extensionsoptions.New().Flags()
		service := searchserver.Service()
		service.AddFlags(fs)
	case "controller-manager":
		return controllermanager.NewControllerManagerCommand().Flags()
	case "scheduler":
		return scheduler.NewSchedulerCommand().Flags()
	case "console":
		console.NewTeamOptions().AddFlags(fs)
		return fs
	case "postgres": // its settings are checked when it starts
		fs.StringArrayP("", "c", nil, "")
		return fs
	case "etcd":
		etcd := flag.NewFlagSet(container, flag.ContinueOnError)
		embed.NewConfig().AddFlags(etcd)
		fs.AddGoFlagSet(etcd)
		for _, name := range []string{"name", "data-dir", "initial-cluster-state"} {
			if fs.Lookup(name) == nil {
				fs.String(name, "", "")
			}
		}
		return fs
	}
	for _, set := range named.FlagSets {
		fs.AddFlagSet(set)
	}
	return fs
}

func TestServicesHaveTheFlagsThatTheyAreGiven(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		seen := map[string]bool{}
		for _, p := range r.pods(t) {
			container := p.spec.Containers[0]
			if !p.serves() {
				continue
			}
			seen[container.Name] = true
			args := make([]string, 0, len(container.Args))
			for _, arg := range container.Args {
				args = append(args, strings.NewReplacer("$(POD_IP)", "10.0.0.1", "$(HOST_IP)", "10.0.0.2", "$(POD_NAME)", "pod-0").Replace(arg))
			}
			assert.NoError(t, flagsOf(container.Name).Parse(args), p.owner)
		}
		for _, service := range []string{"aggregator", "core", "extensions"} {
			assert.True(t, seen[service], "the release has no %s", service)
		}
	})
}

// TestFilesOfFlagsAreMounted checks that every file in a flag is below a mount of the container.
func TestFilesOfFlagsAreMounted(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			container := p.spec.Containers[0]
			for _, arg := range container.Args {
				_, file, _ := strings.Cut(arg, "=")
				if !strings.HasPrefix(file, "/") || strings.HasPrefix(arg, "--etcd-prefix=") {
					continue
				}
				mounted := false
				for _, mount := range container.VolumeMounts {
					mounted = mounted || file == mount.MountPath || strings.HasPrefix(file, mount.MountPath+"/")
				}
				assert.True(t, mounted, "%s: the file of %s is not below a mount", p.owner, arg)
			}
		}
	})
}

// TestCertificatesOfFlagsAreInTheVolume checks that every certificate in a flag is a file of the volume.
func TestCertificatesOfFlagsAreInTheVolume(t *testing.T) {
	forEachProfile(t, func(t *testing.T, r release) {
		for _, p := range r.pods(t) {
			var files []string
			for _, volume := range p.spec.Volumes {
				if volume.Name != "pki" {
					continue
				}
				if volume.Secret != nil {
					files = append(files, "tls.crt", "tls.key", "ca.crt")
					continue
				}
				for _, source := range volume.Projected.Sources {
					for _, item := range source.Secret.Items {
						files = append(files, item.Path)
					}
				}
			}
			for _, arg := range p.spec.Containers[0].Args {
				if _, file, ok := strings.Cut(arg, "/pki/"); ok && !slices.Contains(files, file) {
					t.Errorf("%s: the file of %s is not in the volume, which has %v", p.owner, arg, files)
				}
			}
		}
	})
}
