// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package resize

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxMembers is how many members the certificates of the chart have names for. More make etcd only slower.
	maxMembers = 5
	clientPort = 2379

	pollInterval = time.Second
	// requestTimeout is how long etcd may take for a request.
	requestTimeout = 10 * time.Second
	// healthTimeout is how long members may take to become healthy after a change.
	healthTimeout = 2 * time.Minute
	// stopTimeout and startTimeout are for pods, memberTimeout for a member that copies all data.
	stopTimeout   = 5 * time.Minute
	startTimeout  = 10 * time.Minute
	memberTimeout = 15 * time.Minute
)

// Options say which etcds to resize.
type Options struct {
	Client kubernetes.Interface
	// Dial connects to a port of a pod in the namespace.
	Dial               func(ctx context.Context, pod string, port int32) (net.Conn, error)
	Namespace, Release string
	// Etcd is one etcd of the release, as in etcd-extensions. Empty means all, which have the same number of members.
	Etcd string
	// Members is the number of members to reach: 1, 3 or 5.
	Members int
	// KeepVolumes keeps the volumes of members that are removed.
	KeepVolumes bool
	// Progress gets a line about each step.
	Progress func(line string)
}

// Plan is what Resize would do with an etcd.
type Plan struct {
	Etcd    string   `json:"etcd"`
	Members int      `json:"members"`
	Target  int      `json:"target"`
	Steps   []string `json:"steps"`
}

// resizer resizes one etcd.
type resizer struct {
	Options
	// etcd is the name in labels, and set that of the StatefulSet.
	etcd, set string
	// from is the largest number of members since the resize began. Pods and volumes beyond the present number are to go.
	from int
	// peerURL and clientURL return where a member is.
	peerURL, clientURL func(ordinal int) string
	// connect returns a client of members.
	connect func(ctx context.Context, endpoints ...string) (*clientv3.Client, error)
	// interval is the time between two looks at something that is awaited.
	interval time.Duration
}

// Resize brings etcds of a release to a number of members. It refuses what it cannot do before it changes anything.
func Resize(ctx context.Context, o Options) error {
	all, err := find(ctx, o)
	if err != nil {
		return err
	}
	return each(all, func(r *resizer) error { return r.locked(ctx, r.run) })
}

// DryRun checks what Resize would check, and returns what it would do.
func DryRun(ctx context.Context, o Options) (plans []Plan, err error) {
	all, err := find(ctx, o)
	if err != nil {
		return nil, err
	}
	err = each(all, func(r *resizer) error {
		plan, err := r.plan(ctx)
		if err == nil {
			plans = append(plans, *plan)
		}
		return err
	})
	return plans, err
}

func each(all []*resizer, do func(*resizer) error) error {
	for _, r := range all {
		if err := do(r); err != nil {
			return fmt.Errorf("%s: %w", r.set, err)
		}
	}
	return nil
}

// run resizes the etcd, from whatever state an earlier command has left.
func (r *resizer) run(ctx context.Context) error {
	if err := r.recreate(ctx); err != nil {
		return err
	}
	if err := r.awaitOwnRollout(ctx); err != nil {
		return err
	}
	client, s, err := r.check(ctx)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing is pending
	if r.done(s) {
		if s.untied {
			r.Progress(fmt.Sprintf("having the ConfigMap %s removed with its StatefulSet again", r.set+recordSuffix))
			return r.own(ctx, s.set)
		}
		r.Progress(fmt.Sprintf("%s: nothing is to be done, members: %d", r.set, r.Members))
		return nil
	}
	if err := r.begin(ctx, s); err != nil {
		return err
	}
	if err := r.change(ctx, client, s); err != nil {
		return fmt.Errorf("%w (the same command continues, and one with another --members turns back)", err)
	}
	return nil
}

// change does all steps. What it must undo or finish first of an earlier command, it finds in the state.
func (r *resizer) change(ctx context.Context, client *clientv3.Client, s *state) error {
	if r.Members > len(s.members) || s.learner() != nil && r.Members == len(s.members) {
		if err := r.declare(ctx); err != nil {
			return err
		}
		if err := r.grow(ctx, client); err != nil {
			return err
		}
	}
	if err := r.moveServices(ctx); err != nil {
		return err
	}
	if err := r.shrink(ctx, client); err != nil {
		return err
	}
	if err := r.declare(ctx); err != nil {
		return err
	}
	if err := r.finish(ctx); err != nil {
		return err
	}
	r.Progress(fmt.Sprintf("%s is resized, members: %d", r.set, r.Members))
	return nil
}

// connectThroughPods returns a client of members, through their pods, as the user root of etcd.
func (r *resizer) connectThroughPods(ctx context.Context, endpoints ...string) (*clientv3.Client, error) {
	secret, err := r.Client.CoreV1().Secrets(r.Namespace).Get(ctx, r.set+"-client", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("cannot get the certificate for etcd: %w", err)
	}
	pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
	if err != nil {
		return nil, fmt.Errorf("the Secret %s has no certificate for etcd: %w", secret.Name, err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return nil, fmt.Errorf("the Secret %s has no ca.crt", secret.Name)
	}
	pod, _, _ := strings.Cut(strings.TrimPrefix(endpoints[0], "https://"), ".")
	conn, err := r.Dial(ctx, pod, clientPort) // gRPC would repeat an error, such as missing rights, until its time is over
	if err != nil {
		return nil, err
	}
	if err := conn.Close(); err != nil {
		return nil, err
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		pod, _, _ := strings.Cut(address, ".")
		return r.Dial(ctx, pod, clientPort)
	}
	return clientv3.New(clientv3.Config{
		Endpoints: endpoints, Logger: zap.NewNop(), DialOptions: []grpc.DialOption{grpc.WithContextDialer(dial)},
		TLS: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities, MinVersion: tls.VersionTLS12},
	})
}

// lasting is an error that ends a wait.
type lasting struct{ error }

func (l lasting) Unwrap() error { return l.error }

// poll waits for a condition. Errors count only if they last. Once a minute, it reports the last one.
func (r *resizer) poll(ctx context.Context, timeout time.Duration, what string, condition func(context.Context) (bool, error)) error {
	var last error
	reported := time.Now()
	err := wait.PollUntilContextTimeout(ctx, r.interval, timeout, true, func(ctx context.Context) (done bool, _ error) {
		done, last = condition(ctx)
		if !done && last != nil && time.Since(reported) > time.Minute {
			reported = time.Now()
			r.Progress(fmt.Sprintf("waiting until %s: %v", what, last))
		}
		return done || errors.As(last, &lasting{}), nil
	})
	switch {
	case errors.As(last, &lasting{}):
		return last
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && last != nil:
		return fmt.Errorf("waited %s until %s: %w", timeout, what, last)
	case err != nil:
		return fmt.Errorf("waited %s until %s", timeout, what)
	}
	return nil
}
