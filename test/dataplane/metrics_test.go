// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package dataplane

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// admin returns a configuration of the administrator for a replica itself.
func (d *dataPlane) admin(replica string) *rest.Config {
	config := d.Admin()
	config.Host = d.Replica(replica).URL
	if !strings.HasPrefix(replica, "aggregator") {
		config.CAFile = filepath.Join(d.PKI, "service-ca.crt")
	}
	return config
}

// metric returns the sum of a metric of a replica over the series that have the labels (name="value").
func (d *dataPlane) metric(ctx context.Context, replica, name string, labels ...string) (float64, error) {
	config := d.admin(replica)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	a, err := sendBy(ctx, client, http.MethodGet, config.Host+"/metrics", nil)
	if err == nil {
		err = a.expect(http.StatusOK)
	}
	if err != nil {
		return 0, err
	}
	sum, lines := 0.0, bufio.NewScanner(bytes.NewReader(a.body))
	for lines.Scan() {
		series, value, _ := strings.Cut(lines.Text(), "} ")
		if !strings.HasPrefix(series, name+"{") || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(series, label) }) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", name, replica, err)
		}
		sum += number
	}
	return sum, lines.Err()
}
