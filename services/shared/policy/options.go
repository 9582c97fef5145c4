// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	kubeauthorizer "k8s.io/kubernetes/pkg/kubeapiserver/authorizer"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
)

const (
	modeFlag              = "authorization-mode"
	policyFileFlag        = "authorization-policy-file"
	webhookConfigFileFlag = "authorization-webhook-config-file"
	webhookVersionFlag    = "authorization-webhook-version"
	authorizedTTLFlag     = "authorization-webhook-cache-authorized-ttl"
	unauthorizedTTLFlag   = "authorization-webhook-cache-unauthorized-ttl"
	configFlag            = "authorization-config"
)

// Options choose the authorizers. They are kube-apiserver's, with its flags, defaults and errors. (Its own type for them
// is not used because its package is most of kube-apiserver.)
type Options struct {
	// Modes are asked in this order.
	Modes []string
	// PolicyFile is the policy of mode ABAC.
	PolicyFile string
	// WebhookConfigFile is the kubeconfig file of mode Webhook.
	WebhookConfigFile string
	// WebhookVersion is the version of SubjectAccessReview that is sent to the webhook.
	WebhookVersion string
	// WebhookCacheAuthorizedTTL and WebhookCacheUnauthorizedTTL are how long an answer of the webhook holds. 0 is not at all.
	WebhookCacheAuthorizedTTL   time.Duration
	WebhookCacheUnauthorizedTTL time.Duration
	// ConfigFile is a file with an AuthorizationConfiguration, which excludes the others but PolicyFile. It is followed when
	// it changes.
	ConfigFile string

	flags *pflag.FlagSet
}

// NewOptions returns kube-apiserver's defaults.
func NewOptions() *Options {
	return &Options{
		Modes:                       []string{},
		WebhookVersion:              "v1beta1",
		WebhookCacheAuthorizedTTL:   5 * time.Minute,
		WebhookCacheUnauthorizedTTL: 30 * time.Second,
	}
}

// AddFlags adds the flags under kube-apiserver's names.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.flags = fs
	fs.StringSliceVar(&o.Modes, modeFlag, o.Modes,
		"Ordered list of plug-ins to do authorization on secure port. Defaults to AlwaysAllow if --"+configFlag+" is not used. "+
			"Comma-delimited list of: "+strings.Join(modes.AuthorizationModeChoices, ",")+". Give all services the same.")
	fs.StringVar(&o.PolicyFile, policyFileFlag, o.PolicyFile,
		"File with authorization policy in json line by line format, used with --"+modeFlag+"=ABAC.")
	fs.StringVar(&o.WebhookConfigFile, webhookConfigFileFlag, o.WebhookConfigFile,
		"File with webhook configuration in kubeconfig format, used with --"+modeFlag+"=Webhook.")
	fs.StringVar(&o.WebhookVersion, webhookVersionFlag, o.WebhookVersion,
		"The API version of the authorization.k8s.io SubjectAccessReview to send to and expect from the webhook.")
	fs.DurationVar(&o.WebhookCacheAuthorizedTTL, authorizedTTLFlag, o.WebhookCacheAuthorizedTTL,
		"The duration to cache 'authorized' responses from the webhook authorizer.")
	fs.DurationVar(&o.WebhookCacheUnauthorizedTTL, unauthorizedTTLFlag, o.WebhookCacheUnauthorizedTTL,
		"The duration to cache 'unauthorized' responses from the webhook authorizer.")
	fs.StringVar(&o.ConfigFile, configFlag, o.ConfigFile,
		"File with Authorization Configuration to configure the authorizer chain. "+
			"This flag is mutually exclusive with the other --"+modeFlag+" and --authorization-webhook-* flags.")
}

// Complete applies the default mode, AlwaysAllow.
func (o *Options) Complete() {
	if o.ConfigFile == "" && len(o.Modes) == 0 {
		o.Modes = []string{modes.ModeAlwaysAllow}
	}
}

// AlwaysAllow reports whether the flags let every client do everything. kube-apiserver then knows no anonymous users. A file
// that says so has no such effect.
func (o *Options) AlwaysAllow() bool {
	return slices.Contains(o.Modes, modes.ModeAlwaysAllow)
}

// Validate returns every problem found in the flags. Complete may come later: no mode is no problem.
func (o *Options) Validate() []error {
	if o.ConfigFile != "" {
		if _, _, err := o.load(); err != nil {
			return []error{err}
		}
		return nil
	}
	return o.validateModes()
}

func (o *Options) validateModes() []error {
	var errs []error
	for _, mode := range o.Modes {
		if !modes.IsValidAuthorizationMode(mode) {
			errs = append(errs, fmt.Errorf("%s %q is not a valid mode", modeFlag, mode))
		}
		if mode == modes.ModeABAC && o.PolicyFile == "" {
			errs = append(errs, fmt.Errorf("%s ABAC's authorization policy file not passed", modeFlag))
		}
		if mode == modes.ModeWebhook && o.WebhookConfigFile == "" {
			errs = append(errs, fmt.Errorf("%s Webhook's authorization config file not passed", modeFlag))
		}
	}
	if o.PolicyFile != "" && !slices.Contains(o.Modes, modes.ModeABAC) {
		errs = append(errs, fmt.Errorf("cannot specify --%s without mode ABAC", policyFileFlag))
	}
	if o.WebhookConfigFile != "" && !slices.Contains(o.Modes, modes.ModeWebhook) {
		errs = append(errs, fmt.Errorf("cannot specify --%s without mode Webhook", webhookConfigFileFlag))
	}
	if sets.New(o.Modes...).Len() != len(o.Modes) {
		errs = append(errs, fmt.Errorf("%s %q has mode specified more than once", modeFlag, o.Modes))
	}
	return errs
}

// load reads the file, and returns its content too.
func (o *Options) load() (*apiserver.AuthorizationConfiguration, string, error) {
	if o.legacyFlagsSet() {
		return nil, "", fmt.Errorf("--%s can not be specified when --%s or --authorization-webhook-* flags are defined", configFlag, modeFlag)
	}
	return kubeauthorizer.LoadAndValidateFile(o.ConfigFile, authorizationcel.NewDefaultCompiler(), nil)
}

func (o *Options) legacyFlagsSet() bool {
	return o.flags != nil && slices.ContainsFunc(
		[]string{modeFlag, webhookConfigFileFlag, webhookVersionFlag, authorizedTTLFlag, unauthorizedTTLFlag}, o.flags.Changed)
}

// ModesInForce returns the modes of complete options, by flag or by file.
func (o *Options) ModesInForce() ([]string, error) { return Modes(o.Modes, o.ConfigFile) }

// Modes returns the modes of authorization that a flag or, if there is one, a file gives.
func Modes(flag []string, file string) ([]string, error) {
	if file == "" {
		return flag, nil
	}
	config, _, err := kubeauthorizer.LoadAndValidateFile(file, authorizationcel.NewDefaultCompiler(), nil)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, authorizer := range config.Authorizers {
		found = append(found, string(authorizer.Type))
	}
	return found, nil
}

// authorizerConfig returns what the authorizers of kube-apiserver are made from.
func (o *Options) authorizerConfig() (*kubeauthorizer.Config, error) {
	config := &kubeauthorizer.Config{
		PolicyFile:          o.PolicyFile,
		WebhookRetryBackoff: genericoptions.DefaultAuthWebhookRetryBackoff(),
		ReloadFile:          o.ConfigFile,
	}
	if o.ConfigFile == "" {
		config.AuthorizationConfiguration = o.configurationOfModes()
		return config, nil
	}
	var err error
	config.AuthorizationConfiguration, config.InitialAuthorizationConfigurationData, err = o.load()
	return config, err
}

func (o *Options) configurationOfModes() *apiserver.AuthorizationConfiguration {
	config := &apiserver.AuthorizationConfiguration{}
	for _, mode := range o.Modes {
		authorizer := apiserver.AuthorizerConfiguration{
			Type: apiserver.AuthorizerType(mode),
			Name: kubeauthorizer.GetNameForAuthorizerMode(mode),
		}
		if mode == modes.ModeWebhook {
			authorizer.Name = "default"
			authorizer.Webhook = o.webhook()
		}
		config.Authorizers = append(config.Authorizers, authorizer)
	}
	return config
}

// webhookTimeout is what kube-apiserver gives the webhook of the flags, for which there is no flag.
const webhookTimeout = 30 * time.Second

func (o *Options) webhook() *apiserver.WebhookConfiguration {
	return &apiserver.WebhookConfiguration{
		AuthorizedTTL:              metav1.Duration{Duration: o.WebhookCacheAuthorizedTTL},
		CacheAuthorizedRequests:    o.WebhookCacheAuthorizedTTL != 0,
		UnauthorizedTTL:            metav1.Duration{Duration: o.WebhookCacheUnauthorizedTTL},
		CacheUnauthorizedRequests:  o.WebhookCacheUnauthorizedTTL != 0,
		Timeout:                    metav1.Duration{Duration: webhookTimeout},
		FailurePolicy:              apiserver.FailurePolicyNoOpinion,
		SubjectAccessReviewVersion: o.WebhookVersion,
		ConnectionInfo: apiserver.WebhookConnectionInfo{
			Type:           apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile,
			KubeConfigFile: &o.WebhookConfigFile,
		},
	}
}
