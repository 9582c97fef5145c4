// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/tripod-k8s/tripod/base/hop/envelope"
	"github.com/tripod-k8s/tripod/base/hop/trust"
	identityv1 "github.com/tripod-k8s/tripod/proto/identity/v1"
)

// Master is a user with all rights.
var Master = &user.DefaultInfo{Name: "master", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// Backend returns a configuration for direct requests to a replica of core or extensions, with the certificate of a service. An empty
// service has no certificate.
func (f *Fleet) Backend(replica, certificate string) *rest.Config {
	config := &rest.Config{Host: f.replicas[replica].URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAFile: f.file("service-ca.crt"), ServerName: trust.ServerName(f.replicas[replica].service),
	}}
	if certificate != "" {
		config.CertFile, config.KeyFile = f.file(certificate+".crt"), f.file(certificate+".key")
	}
	return config
}

// As returns a configuration with which a test acts as the aggregator towards a replica of core or extensions: it says who sends its
// requests.
func (f *Fleet) As(replica string, sender user.Info) *rest.Config {
	config := f.Backend(replica, aggregator)
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return withEnvelope{sender: sender, next: next}
	}
	return config
}

type withEnvelope struct {
	sender user.Info
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t withEnvelope) RoundTrip(r *http.Request) (*http.Response, error) {
	value, err := envelope.Encode(&identityv1.Envelope{User: envelope.FromUser(t.sender), ClientAddress: "192.0.2.1:1234"})
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set(envelope.Header, value)
	return t.next.RoundTrip(r)
}

// Metric returns the sum of a counter or gauge of a replica over the series that have all these labels (name=value), or 0 if there is none. Of a histogram
// it counts the observations.
func (f *Fleet) Metric(ctx context.Context, replica, name string, labels ...string) (float64, error) {
	config := f.Through(replica).Admin()
	if f.replicas[replica].service != aggregator {
		config = f.As(replica, Master)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	body, err := client.RESTClient().Get().AbsPath("/metrics").Stream(ctx)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", replica, err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	sum, err := SumMetric(body, name, labels...)
	if err != nil {
		return 0, fmt.Errorf("metrics of %s: %w", replica, err)
	}
	return sum, nil
}

// SumMetric reads an answer of /metrics, as [Fleet.Metric] does.
func SumMetric(metrics io.Reader, name string, labels ...string) (float64, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, series := range families[name].GetMetric() {
		if hasLabels(series, labels) {
			sum += series.GetCounter().GetValue() + series.GetGauge().GetValue() + float64(series.GetHistogram().GetSampleCount())
		}
	}
	return sum, nil
}

func hasLabels(series *dto.Metric, labels []string) bool {
	has := map[string]string{}
	for _, pair := range series.GetLabel() {
		has[pair.GetName()] = pair.GetValue()
	}
	for _, label := range labels {
		name, value, _ := strings.Cut(label, "=")
		if has[name] != value {
			return false
		}
	}
	return true
}
