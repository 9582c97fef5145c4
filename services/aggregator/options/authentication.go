// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"

	"github.com/tripod-k8s/tripod/services/shared/policy"
)

// AuthenticationOptions are the ways of authentication that are the aggregator's own business:
// client certificates, authenticating proxies and anonymous. Tokens are asked of core.
type AuthenticationOptions struct {
	ClientCert    genericoptions.ClientCertAuthenticationOptions
	RequestHeader genericoptions.RequestHeaderAuthenticationOptions
	// AllowAnonymous is --anonymous-auth.
	AllowAnonymous bool
	// ConfigFile is --authentication-config, of which only the anonymous section is read here;
	// its JWT authenticators are core's.
	ConfigFile string

	flags *pflag.FlagSet
}

// NewAuthenticationOptions returns kube-apiserver's defaults.
func NewAuthenticationOptions() *AuthenticationOptions {
	return &AuthenticationOptions{AllowAnonymous: true}
}

// AddFlags adds the flags under kube-apiserver's names.
func (o *AuthenticationOptions) AddFlags(fs *pflag.FlagSet) {
	o.flags = fs
	o.ClientCert.AddFlags(fs)
	o.RequestHeader.AddFlags(fs)
	fs.BoolVar(&o.AllowAnonymous, "anonymous-auth", o.AllowAnonymous,
		"Treat requests that no authentication method rejects as system:anonymous in the group system:unauthenticated.")
	fs.StringVar(&o.ConfigFile, "authentication-config", o.ConfigFile,
		"File with an AuthenticationConfiguration. The aggregator reads its anonymous section; give the same file to core, which checks tokens.")
}

// Validate returns every problem found in the flags.
func (o *AuthenticationOptions) Validate() []error {
	errs := o.RequestHeader.Validate()
	if _, err := o.Anonymous(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// applyAuthorization lets no anonymous clients in where every client may do everything, as kube-apiserver does.
func (o *AuthenticationOptions) applyAuthorization(authorization *policy.Options) {
	if o.AllowAnonymous && authorization.AlwaysAllow() {
		klog.InfoS("Anonymous requests are unauthorized, because --authorization-mode=AlwaysAllow would allow them everything")
		o.AllowAnonymous = false
	}
}

// Anonymous returns the configuration of anonymous requests, by the rule of kube-apiserver: the
// file and the flag exclude each other (KEP-4633).
func (o *AuthenticationOptions) Anonymous() (*apiserver.AnonymousAuthConfig, error) {
	flag := &apiserver.AnonymousAuthConfig{Enabled: o.AllowAnonymous}
	if o.ConfigFile == "" {
		return flag, nil
	}
	config, err := loadAuthenticationConfiguration(o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--authentication-config: %w", err)
	}
	if config.Anonymous == nil {
		return flag, nil
	}
	if o.flags != nil && o.flags.Changed("anonymous-auth") {
		return nil, fmt.Errorf("--anonymous-auth cannot be set when --authentication-config has an anonymous section")
	}
	return config.Anonymous, nil
}

func loadAuthenticationConfiguration(path string) (*apiserver.AuthenticationConfiguration, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	obj, err := runtime.Decode(decoder, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	config, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, not an AuthenticationConfiguration", path, obj)
	}
	return config, nil
}
