// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	"google.golang.org/protobuf/proto"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/base/service/filewatch"
	"github.com/tripod-k8s/tripod/base/service/settings"
	backendv1 "github.com/tripod-k8s/tripod/proto/backend/v1"
)

// Settings are what the services compare of each other.
type Settings struct {
	files   settings.Files
	reloads bool
	watch   *filewatch.Watch
	current *backendv1.Settings
}

// ReadSettings returns the settings of a service whose options are complete.
func (o *Options) ReadSettings(access settings.Access, admission *genericoptions.AdmissionOptions) (*Settings, error) {
	s := &Settings{
		files:   settings.Files{Etcd: o.Etcd, Audit: o.Audit, Admission: admission, AuditSocket: o.AuditSocket},
		reloads: o.Etcd.EncryptionProviderConfigAutomaticReload,
		watch:   filewatch.New(o.Etcd.EncryptionProviderConfigFilepath), // before they are read
		current: settings.Of(o.ServerRun.ComponentGlobalsRegistry, o.APIEnablement.RuntimeConfig, access),
	}
	var err error
	s.current.Configuration, err = s.files.Read()
	return s, err
}

// SetPartitions sets the partitions of extensions. Call it before others see the settings.
func (s *Settings) SetPartitions(table string) { s.current.Configuration.Partitions = &table }

// Now returns the settings with which the service has started. Nil settings have none.
func (s *Settings) Now() *backendv1.Settings {
	if s == nil {
		return nil
	}
	return s.current
}

// Follow calls report with new settings when a file changes that the service reloads, until the context ends. That is the encryption
// configuration. The service reloads it within a minute, and not at all if it cannot use it.
func (s *Settings) Follow(ctx context.Context, report func(*backendv1.Settings)) {
	if s == nil || !s.reloads {
		return
	}
	s.watch.Run(ctx, func() {
		encryption, err := s.files.Encryption()
		if err != nil {
			klog.ErrorS(err, "Reporting the previous encryption configuration to others")
			return
		}
		now := proto.CloneOf(s.current)
		now.Configuration.Encryption = encryption
		s.current = now
		report(now)
	})
}
