// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package kindcluster

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPortsAreMapped(t *testing.T) {
	const given = `
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
networking: {disableDefaultCNI: true}
nodes:
- role: control-plane
  extraPortMappings:
  - {containerPort: 30080, hostPort: 30100, listenAddress: 127.0.0.1, protocol: TCP}
  - {containerPort: 80, hostPort: 8080}
`
	for _, test := range []struct {
		name, config string
		ports        map[int32]int32
		// want has ports of the host; 0 stands for any.
		want map[int32]int32
	}{
		{"stock kind", "", map[int32]int32{30080: 30200}, map[int32]int32{30080: 30200}},
		{"stock kind, any port", "", map[int32]int32{30080: 0}, map[int32]int32{30080: 0}},
		{"a configuration's port", given, map[int32]int32{30080: 0}, map[int32]int32{30080: 30100, 80: 8080}},
		{"another one than a configuration's", given, map[int32]int32{30080: 30200}, map[int32]int32{30080: 30200, 80: 8080}},
		{"one more than a configuration's", given, map[int32]int32{30080: 0, 30081: 0}, map[int32]int32{30080: 30100, 30081: 0, 80: 8080}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := ""
			if test.config != "" {
				file = filepath.Join(t.TempDir(), "kind.yaml")
				require.NoError(t, os.WriteFile(file, []byte(test.config), 0o600))
			}
			config, err := readConfig(file)
			require.NoError(t, err)
			require.NoError(t, mapPorts(config, test.ports))
			node := config.Nodes[0]
			got := map[int32]int32{}
			for _, m := range node.ExtraPortMappings {
				got[m.ContainerPort] = m.HostPort
			}
			assert.Len(t, got, len(test.want), "mappings %v, want %v", got, test.want)
			for port, want := range test.want {
				if want != 0 && got[port] != want || got[port] <= 0 {
					t.Errorf("mappings %v, want %v", got, test.want)
				}
			}
			for port := range test.ports {
				if label := node.Labels[portLabel+strconv.Itoa(int(port))]; label != strconv.Itoa(int(got[port])) {
					t.Errorf("labels %v, mappings %v", node.Labels, got)
				}
			}
			assert.Equal(t, test.config != "", config.Networking.DisableDefaultCNI, "mapPorts lost the rest of the configuration")
		})
	}
}

func TestAConfigurationThatIsWrongIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kind.yaml")
	require.NoError(t, os.WriteFile(file, []byte("nodez: []"), 0o600))
	if _, err := readConfig(file); err == nil {
		t.Error("no error")
	}
	if _, err := readConfig(file + ".missing"); err == nil {
		t.Error("no error for a missing file")
	}
}
