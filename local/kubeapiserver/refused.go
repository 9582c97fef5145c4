// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapiserver

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apiserver/pkg/features"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"

	"github.com/tripod-k8s/tripod/base/service/settings"
)

// refusedFlags are the flags that need kube-apiserver in one process, and why.
var refusedFlags = map[string]string{
	"peer-ca-file":        settings.NoPeers,
	"peer-advertise-ip":   settings.NoPeers,
	"peer-advertise-port": settings.NoPeers,
}

// refusedGates are the feature gates that need kube-apiserver in one process, and why.
var refusedGates = map[featuregate.Feature]string{
	features.StorageVersionAPI:                   settings.NoStorageVersions,
	features.UnknownVersionInteroperabilityProxy: settings.NoPeers,
}

// refuse returns an error if a flag needs kube-apiserver in one process.
func refuse(given []flagValue) error {
	asked := map[featuregate.Feature]bool{}
	for _, flag := range given {
		if why, refused := refusedFlags[flag.name]; refused && flag.value != "" {
			return fmt.Errorf("--%s cannot be used with Tripod: %s", flag.name, why)
		}
		if flag.name == "feature-gates" {
			gatesIn(flag.value, asked)
		}
	}
	for gate, why := range refusedGates {
		if asked[gate] {
			return fmt.Errorf("--feature-gates=%s=true cannot be used with Tripod: %s", gate, why)
		}
	}
	return nil
}

// componentPrefix is the name of the component that gates in --feature-gates may have as a prefix. Either all gates have it or none.
const componentPrefix = compatibility.DefaultKubeComponent + ":"

// gatesIn reads a value of --feature-gates, "A=true,B=false". It leaves invalid values to kube-apiserver's own validation.
func gatesIn(value string, asked map[featuregate.Feature]bool) {
	for _, pair := range strings.Split(value, ",") {
		name, setting, _ := strings.Cut(pair, "=")
		name = strings.TrimPrefix(strings.TrimSpace(name), componentPrefix)
		if on, err := strconv.ParseBool(strings.TrimSpace(setting)); err == nil {
			asked[featuregate.Feature(name)] = on
		}
	}
}

// switchedOff returns the flag that turns off a gate that needs one process if only AllAlpha=true turned it on, or nothing. A gate
// that is on by default may stay, because it does nothing without flags that are refused.
func switchedOff(gates featuregate.FeatureGate, given []flagValue) []flagValue {
	if !gates.Enabled(features.StorageVersionAPI) {
		return nil
	}
	prefix := ""
	for _, flag := range given {
		if flag.name == "feature-gates" && strings.Contains(flag.value, componentPrefix) {
			prefix = componentPrefix
		}
	}
	return []flagValue{{"feature-gates", prefix + string(features.StorageVersionAPI) + "=false"}}
}
