// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits bound what a member may send and hold, because its API server is not trusted.
type Limits struct {
	// ObjectSize is of the JSON of an object, DocumentSize of a document: the version, discovery, OpenAPI. Both count after decompression.
	ObjectSize, DocumentSize resource.Quantity
	// Resources are the streams of a member, Objects its rows, and Size is theirs and that of documents.
	Resources, Objects int
	Size               resource.Quantity
	// Watches are those of all members.
	Watches int
	// Changes are those in a second, in the long run.
	Changes int
	// Timeout is how long a member may take for the next bytes of a list, or for one object or document.
	Timeout time.Duration
	// Memory is for all that was read from all members and is not written yet.
	Memory resource.Quantity
	// Allow has exceptions to what search refuses.
	Allow []string
}

// The exceptions.
const (
	allowHTTP        = "http"
	allowInsecureTLS = "insecure-tls"
	allowProxy       = "proxy"
	allowLoopback    = "loopback"
	allowLinkLocal   = "link-local"
)

var exceptions = []string{allowHTTP, allowInsecureTLS, allowProxy, allowLoopback, allowLinkLocal}

// Standard returns the limits for a process with 512 MiB of memory. An object of etcd's usual 1.5 MiB has up to 9 MiB as JSON: "<" is
// written as \u003c.
func Standard() Limits {
	return Limits{
		ObjectSize: resource.MustParse("10Mi"), DocumentSize: resource.MustParse("16Mi"),
		Resources: 1000, Objects: 500_000, Size: resource.MustParse("4Gi"), Watches: 3800,
		Changes: 500, Timeout: 30 * time.Second, Memory: resource.MustParse("192Mi"),
	}
}

// AddFlags adds the flags of the limits.
func (l *Limits) AddFlags(fs *pflag.FlagSet) {
	size := func(value *resource.Quantity, name, usage string) {
		fs.Var(&quantity{value}, name, usage)
	}
	size(&l.ObjectSize, "member-max-object-size", "Largest object of a cluster, as JSON. A resource with a larger one is not copied.")
	size(&l.DocumentSize, "member-max-document-size", "Largest document of a cluster about itself: its discovery and its OpenAPI documents.")
	fs.IntVar(&l.Resources, "member-max-resources", l.Resources, "Resources that are copied of a cluster. More are not copied.")
	fs.IntVar(&l.Objects, "member-max-objects", l.Objects, "Objects that are kept of a cluster. More are not copied.")
	size(&l.Size, "member-max-size", "Size of the objects and documents that are kept of a cluster, in the database. More are not copied.")
	fs.IntVar(&l.Watches, "member-watches", l.Watches,
		"Watches of all clusters at once. Each resource has one. If there are more, clusters with more than an equal share wait with some.")
	fs.IntVar(&l.Changes, "member-max-changes", l.Changes,
		"Changes that are copied of a cluster in a second, in the long run; 200 times as many at once. More wait. A change of a large object "+
			"counts more than once.")
	fs.DurationVar(&l.Timeout, "member-timeout", l.Timeout, "How long a cluster may take for one object or document, and for the next bytes "+
		"of a list.")
	size(&l.Memory, "member-memory", "Memory for objects of all clusters on their way into the database. Copying waits for it.")
	fs.StringSliceVar(&l.Allow, "member-allow", l.Allow, "What search refuses in PediaClusters otherwise: "+
		"http (servers without TLS), insecure-tls (no verification of certificates), proxy (proxy-url in kubeconfigs), loopback and link-local "+
		"(such addresses).")
}

// Validate returns what is wrong with the flags.
func (l *Limits) Validate() error {
	for _, name := range l.Allow {
		if !slices.Contains(exceptions, name) {
			return fmt.Errorf("--member-allow: %q is none of %s", name, strings.Join(exceptions, ", "))
		}
	}
	const least = 1 << 20
	switch {
	case l.ObjectSize.Value() < least || l.DocumentSize.Value() < least || l.Size.Value() < least:
		return errors.New("--member-max-object-size, --member-max-document-size and --member-max-size must be at least 1Mi")
	case l.Resources < 1 || l.Objects < 1 || l.Changes < 1:
		return errors.New("--member-max-resources, --member-max-objects and --member-max-changes must be at least 1")
	case l.Watches < 2*maxNamespaces:
		return fmt.Errorf("--member-watches must be at least %d", 2*maxNamespaces)
	case l.Timeout < time.Second:
		return errors.New("--member-timeout must be at least 1s")
	case l.Memory.Value() < memoryOfText*l.largest()*memoryShares:
		return fmt.Errorf("--member-memory must be at least %d times --member-max-object-size and --member-max-document-size",
			memoryOfText*memoryShares)
	}
	return nil
}

func (l *Limits) allows(exception string) bool { return slices.Contains(l.Allow, exception) }

// quantity is a flag.
type quantity struct{ *resource.Quantity }

// Set implements pflag.Value.
func (q *quantity) Set(text string) error {
	value, err := resource.ParseQuantity(text)
	if err == nil {
		*q.Quantity = value
	}
	return err
}

// Type implements pflag.Value.
func (q *quantity) Type() string { return "quantity" }

// limitTime is the name of the limit on the time of an answer or a part of it, and limitListTime on that of a whole list.
const (
	limitTime     = "time"
	limitListTime = "list-time"
)

// listTooLong says that a list takes too long.
func (l *Limiter) listTooLong() *LimitError {
	return &LimitError{Limit: limitListTime, Message: "the list takes longer than " + l.listTime.String()}
}

// LimitError says that a member has sent or has more than search takes.
type LimitError struct {
	// Limit names the limit in metrics, and Flag is the flag that sets it, if there is one.
	Limit, Flag string
	// Message says what was too much.
	Message string
}

func (e *LimitError) Error() string {
	if e.Flag == "" {
		return e.Message
	}
	return e.Message + " (--" + e.Flag + ")"
}

// limited returns the error for a limit, and counts it.
func limited(limit, flag, message string, args ...any) *LimitError {
	limitsHit.WithLabelValues(limit).Inc()
	return &LimitError{Limit: limit, Flag: flag, Message: fmt.Sprintf(message, args...)}
}

func isLimit(err error) bool { return errors.As(err, new(*LimitError)) }

// isTooMuch reports whether a member has sent more than search takes. One that is slow, or whose answers get lost, has not.
func isTooMuch(err error) bool {
	var limit *LimitError
	return errors.As(err, &limit) && limit.Limit != limitTime
}
