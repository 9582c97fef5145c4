// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

const (
	// aws is the endpoint of Amazon S3. The client finds the one of the bucket's region.
	aws = "https://s3.amazonaws.com"
	// defaultRegion is the one that servers other than Amazon's have unless they are configured otherwise.
	defaultRegion = "us-east-1"

	dialTimeout = 10 * time.Second
	// stallTimeout ends a connection on which no byte moves for so long. Completing an upload of many parts takes a server a while.
	stallTimeout = 2 * time.Minute
	// The service of a cloud that gives its machines credentials is near. Other machines do not reach one.
	cloudDialTimeout = 3 * time.Second
	cloudTimeout     = 20 * time.Second

	// Requests are repeated with up to a second between them: those that begin a command only a few times, so that it fails soon, and
	// those of a transfer for half a minute or longer.
	fewTries  = 4
	manyTries = 60
)

// Server says where an S3-compatible server is. Environment variables of AWS stand in for empty fields.
type Server struct {
	// Endpoint is a URL such as https://s3.example.com. Empty means AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or else Amazon S3.
	Endpoint string
	// Region is that of the bucket. Empty means AWS_REGION or AWS_DEFAULT_REGION.
	Region string
	// CAFile has the certificates that the server's is verified with. Empty means AWS_CA_BUNDLE, or else those of the system.
	CAFile string
}

// Client uses a server.
type Client struct {
	// quick gives up soon, patient outlasts a cut.
	quick, patient *minio.Client
	endpoint       string
	// partSize is how many bytes of a file go in one request.
	partSize uint64
}

// Connect makes a client and finds its credentials. It does not contact the server yet.
func (s Server) Connect(ctx context.Context) (*Client, error) {
	endpoint, own, err := s.endpoint()
	if err != nil {
		return nil, err
	}
	transport, err := s.transport(endpoint.Scheme == "https")
	if err != nil {
		return nil, err
	}
	creds, err := findCredentials(ctx)
	if err != nil {
		return nil, err
	}
	options := minio.Options{
		Creds: creds, Secure: endpoint.Scheme == "https", Transport: transport, MaxRetries: fewTries,
		Region: cmp.Or(s.Region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")),
	}
	if own {
		// The bucket is in the path: few servers have a DNS name and a certificate for each bucket.
		options.BucketLookup = minio.BucketLookupPath
		options.Region = cmp.Or(options.Region, defaultRegion)
	}
	client := &Client{endpoint: endpoint.String(), partSize: 16 << 20}
	if client.quick, err = minio.New(endpoint.Host, &options); err != nil {
		return nil, fmt.Errorf("cannot use S3 at %s: %w", endpoint, err)
	}
	options.MaxRetries = manyTries
	if client.patient, err = minio.New(endpoint.Host, &options); err != nil {
		return nil, fmt.Errorf("cannot use S3 at %s: %w", endpoint, err)
	}
	return client, nil
}

// endpoint returns the URL of the server, and whether it is another one than Amazon's.
func (s Server) endpoint() (endpoint *url.URL, own bool, err error) {
	given := cmp.Or(s.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	endpoint, err = url.Parse(cmp.Or(given, aws))
	if err != nil || endpoint.Host == "" || (endpoint.Scheme != "https" && endpoint.Scheme != "http") {
		return nil, false, fmt.Errorf("%q is not a URL of S3 such as https://s3.example.com", withoutUser(endpoint, given))
	}
	if endpoint.User != nil || endpoint.RawQuery != "" || (endpoint.Path != "" && endpoint.Path != "/") {
		return nil, false, fmt.Errorf("the URL of S3, %q, must have a scheme, a host and a port, and nothing else", withoutUser(endpoint, given))
	}
	endpoint.Path = ""
	return endpoint, given != "", nil
}

// withoutUser returns a URL to print: a password in it stays unseen.
func withoutUser(parsed *url.URL, given string) string {
	if parsed == nil {
		return "the value of --s3-endpoint or AWS_ENDPOINT_URL"
	}
	if parsed.User == nil && parsed.RawQuery == "" {
		return given
	}
	return parsed.Scheme + "://" + parsed.Host
}

// Transport returns one with the certificates of the server.
func (s Server) Transport() (*http.Transport, error) { return s.transport(true) }

func (s Server) transport(secure bool) (*http.Transport, error) {
	transport, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return stalling{connection}, nil
	}
	transport.ResponseHeaderTimeout = stallTimeout
	file := cmp.Or(s.CAFile, os.Getenv("AWS_CA_BUNDLE"))
	if file == "" || !secure {
		return transport, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the CA of S3: %w", err)
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA of S3, %s, has no certificate", file)
	}
	return transport, nil
}

// stalling is a connection that breaks if no byte moves in either direction for a while. The deadline is that of reads and of writes: a
// read for the response is pending while a request is written.
type stalling struct{ net.Conn }

func (c stalling) Read(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c stalling) Write(p []byte) (int, error) {
	if err := c.SetDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// findCredentials takes the first that it finds: in environment variables, in the file of the AWS tools, or from the cloud. It never uses a
// bucket without credentials.
func findCredentials(ctx context.Context) (*credentials.Credentials, error) {
	dial := (&net.Dialer{Timeout: cloudDialTimeout}).DialContext
	cloud := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dial}, Timeout: cloudTimeout}
	var errs []error
	for _, source := range []struct {
		name     string
		provider credentials.Provider
		asked    bool
	}{
		{"environment", &credentials.EnvAWS{}, true},
		{"file", &credentials.FileAWSCredentials{}, true},
		{"cloud", &credentials.IAM{Client: cloud}, os.Getenv("AWS_EC2_METADATA_DISABLED") != "true"},
	} {
		if !source.asked {
			continue
		}
		found := credentials.New(source.provider)
		value, err := found.GetWithContext(&credentials.CredContext{Client: cloud})
		if err == nil && value.AccessKeyID != "" && value.SecretAccessKey != "" {
			return found, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s: %w", source.name, plain(err)))
		}
	}
	return nil, missingCredentials(errs)
}

func missingCredentials(errs []error) error {
	const missing = "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_SHARED_CREDENTIALS_FILE, " +
		"or the role of the machine or pod"
	if len(errs) == 0 {
		return errors.New(missing)
	}
	return fmt.Errorf("%s (%w)", missing, oneLine(errs))
}
