// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/grpclog"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/tripod-k8s/tripod/base/service/atomicfile"
	"github.com/tripod-k8s/tripod/test/framework"
	"github.com/tripod-k8s/tripod/test/framework/both"
)

var (
	environment *framework.Environment
	// authorities judge tokens for the clusters that tests share.
	authorities *outside
	// stock and tested have the same authentication. tested is Tripod, unless TEST_AGAINST names another one.
	stock, tested *side
)

func TestMain(m *testing.M) {
	// Most of the time tests wait for servers, not for a processor. The command line may say otherwise.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // refused connections are among the tests
	framework.Main(m, func(ctx context.Context, env *framework.Environment) (err error) {
		environment = env
		if authorities, err = newOutside(env.Dir); err != nil {
			return err
		}
		stock, tested, err = startBoth(ctx, authorities.flags()...)
		return err
	})
}

// startBoth starts a stock kube-apiserver and what is compared with it. Flags are those of kube-apiserver; of Tripod's
// services, core alone gets them.
func startBoth(ctx context.Context, flags ...string) (stock, tested *side, err error) {
	var args []string
	for _, flag := range flags {
		args = append(args, "--core-arg="+flag)
	}
	clusters, err := both.StartClusters(ctx, environment, flags, args)
	if err != nil {
		return nil, nil, err
	}
	sides := [2]*side{{clusters[0]}, {clusters[1]}}
	return sides[0], sides[1], both.Each(ctx, sides, func(ctx context.Context, s *side) error { return s.prepare(ctx) })
}

// outside is what judges tokens outside of a cluster, and the files by which API servers know it.
type outside struct {
	// plain signs with RS256 and has its claims taken as they are, expressive signs with ES256 and has them mapped by
	// expressions.
	plain, expressive *issuer
	// passing is an issuer that one test takes away.
	passing *issuer
	webhook *tokenWebhook
	// configFile is the AuthenticationConfiguration.
	configFile, webhookFile, tokenFile string
}

func newOutside(dir string) (*outside, error) {
	o := &outside{
		webhook:    newTokenWebhook(),
		configFile: filepath.Join(dir, "authentication.yaml"), webhookFile: filepath.Join(dir, "webhook.yaml"), tokenFile: filepath.Join(dir, "tokens.csv"),
	}
	for token, user := range webhookUsers {
		o.webhook.allow(token, user)
	}
	var err error
	if o.plain, err = newIssuer(jose.RS256); err != nil {
		return nil, err
	}
	if o.expressive, err = newIssuer(jose.ES256); err != nil {
		return nil, err
	}
	if o.passing, err = newIssuer(jose.ES256); err != nil {
		return nil, err
	}
	kubeconfig, err := o.webhook.kubeconfig()
	if err != nil {
		return nil, err
	}
	return o, errors.Join(
		writeConfiguration(o.configFile, append(o.lasting(), o.passing.withPrefix("before:"))...),
		os.WriteFile(o.webhookFile, kubeconfig, 0o600),
		os.WriteFile(o.tokenFile, []byte(staticTokens), 0o600),
	)
}

func (o *outside) flags() []string {
	return []string{
		"--authentication-config=" + o.configFile,
		"--authentication-token-webhook-config-file=" + o.webhookFile,
		"--authentication-token-webhook-version=v1",
		fmt.Sprintf("--authentication-token-webhook-cache-ttl=%s", webhookTTL),
		"--token-auth-file=" + o.tokenFile,
	}
}

// lasting are the issuers that no test takes away.
func (o *outside) lasting() []apiserverv1.JWTAuthenticator {
	return []apiserverv1.JWTAuthenticator{
		o.plain.authenticator(apiserverv1.ClaimMappings{
			Username: apiserverv1.PrefixedClaimOrExpression{Claim: "sub", Prefix: ptr.To("oidc:")},
			Groups:   apiserverv1.PrefixedClaimOrExpression{Claim: "groups", Prefix: ptr.To("oidc:")},
		}),
		o.expressiveAuthenticator(),
	}
}

// withPrefix has the names of users begin with a prefix.
func (i *issuer) withPrefix(prefix string) apiserverv1.JWTAuthenticator {
	return i.authenticator(apiserverv1.ClaimMappings{Username: apiserverv1.PrefixedClaimOrExpression{Claim: "sub", Prefix: ptr.To(prefix)}})
}

func (i *issuer) authenticator(mappings apiserverv1.ClaimMappings) apiserverv1.JWTAuthenticator {
	return apiserverv1.JWTAuthenticator{
		Issuer:        apiserverv1.Issuer{URL: i.url(), CertificateAuthority: i.ca(), Audiences: []string{"tripod-test"}},
		ClaimMappings: mappings,
	}
}

func (o *outside) expressiveAuthenticator() apiserverv1.JWTAuthenticator {
	authenticator := o.expressive.authenticator(apiserverv1.ClaimMappings{
		Username: apiserverv1.PrefixedClaimOrExpression{Expression: `claims.nick + "@example.com"`},
		Groups:   apiserverv1.PrefixedClaimOrExpression{Expression: `claims.roles`},
		UID:      apiserverv1.ClaimOrExpression{Claim: "sub"},
		Extra: []apiserverv1.ExtraMapping{
			{Key: "example.com/tenant", ValueExpression: "claims.tenant"},
			{Key: "example.com/path%2fwith-escapes", ValueExpression: "claims.?shoe.orValue([])"},
		},
	})
	authenticator.Issuer.Audiences = append(authenticator.Issuer.Audiences, "tripod-other")
	authenticator.Issuer.AudienceMatchPolicy = apiserverv1.AudienceMatchPolicyMatchAny
	authenticator.ClaimValidationRules = []apiserverv1.ClaimValidationRule{{Expression: "claims.tenant != ''", Message: "a tenant is needed"}}
	authenticator.UserValidationRules = []apiserverv1.UserValidationRule{{Expression: "!user.groups.exists(g, g.startsWith('system:'))", Message: "reserved"}}
	return authenticator
}

// writeConfiguration writes an AuthenticationConfiguration.
func writeConfiguration(path string, authenticators ...apiserverv1.JWTAuthenticator) error {
	data, err := yaml.Marshal(apiserverv1.AuthenticationConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserverv1.SchemeGroupVersion.String(), Kind: "AuthenticationConfiguration"},
		JWT:      authenticators,
	})
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return atomicfile.Write(path, data)
}

// withToken returns the configuration of a client that has nothing but a token.
func withToken(cluster *framework.Cluster, token string) *rest.Config {
	config := cluster.Anonymous()
	config.BearerToken = token
	return config
}

// closing closes what was only read.
func closing(c io.Closer) { _ = c.Close() }
