// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

// Package check checks that an API server works. It creates, reads, changes, watches and deletes an object of a built-in kind and a
// custom resource, which it defines first. It leaves nothing behind.
package check

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

const (
	// label is on every object, and its value is the name of the run.
	label = "tripod-k8s.io/check"
	// cleanUpTimeout bounds the deletion of what a failed run has made.
	cleanUpTimeout = 10 * time.Second
)

// Check is one run.
type Check struct {
	// Client is that of the API server.
	Client dynamic.Interface
	// Namespace is where objects are made. It exists.
	Namespace string
	// Name is the name of the run, a DNS label. Runs with different names do not disturb each other.
	Name string
	// Report gets each step, as soon as it is done.
	Report func(Step)
	// Health asks for a path of the API server. It may be nil.
	Health func(ctx context.Context, path string) (code int, answer string, err error)
}

// Step is something that a check has done, or found.
type Step struct {
	// Done is what was done, such as created, or [Warning].
	Done string `json:"done"`
	// What is the object, or the text of a warning.
	What string `json:"what"`
}

// Warning is what is done in a step that found a difference. The API works nevertheless.
const Warning = "warning"

// notes are checks of an aggregator that say how services differ. Tripod works nevertheless.
var notes = []string{"same-settings", "same-configuration"}

// Run returns the first error that it finds.
func (c *Check) Run(ctx context.Context) error {
	if err := c.object(ctx, c.configMap()); err != nil {
		return err
	}
	if err := c.defined(ctx, func() error { return c.object(ctx, c.customResource()) }); err != nil {
		return err
	}
	if c.Health == nil {
		return nil
	}
	c.note(ctx)
	return c.checkKubelets(ctx)
}

// note says how services differ. Another API server knows nothing of that, and not every user may ask.
func (c *Check) note(ctx context.Context) {
	for _, name := range notes {
		code, answer, err := c.Health(ctx, "/readyz/"+name)
		if err == nil && code == http.StatusInternalServerError {
			c.report(Warning, strings.TrimSpace(name+": "+strings.TrimPrefix(answer, "internal server error: ")))
		}
	}
}

// object does what clients do with an object.
func (c *Check) object(ctx context.Context, s subject) (err error) {
	client := c.Client.Resource(s.resource).Namespace(c.Namespace)
	what := fmt.Sprintf("%s %s/%s", s.object.GetKind(), c.Namespace, s.object.GetName())
	made, err := client.Create(ctx, s.object, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("cannot create %s: %w", what, err)
	}
	c.report("created", what)
	deleted := false
	defer func() {
		if !deleted {
			err = errors.Join(err, c.cleanUp(ctx, client, made))
		}
	}()

	events, err := client.Watch(ctx, metav1.ListOptions{LabelSelector: label + "=" + c.Name, ResourceVersion: made.GetResourceVersion()})
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", what, err)
	}
	defer events.Stop()
	if err := c.readAndChange(ctx, client, s, what); err != nil {
		return err
	}
	if err := expect(ctx, events, watch.Modified, what); err != nil {
		return err
	}
	if err := client.Delete(ctx, made.GetName(), metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("cannot delete %s: %w", what, err)
	}
	deleted = true
	if err := expect(ctx, events, watch.Deleted, what); err != nil {
		return err
	}
	if _, err := client.Get(ctx, made.GetName(), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is there after it was deleted: %w", what, errorOr(err, "it can be read"))
	}
	c.report("deleted", what)
	c.report("watched", what)
	return nil
}

// readAndChange reads an object that was created, by name and in a list, and changes it.
func (c *Check) readAndChange(ctx context.Context, client dynamic.ResourceInterface, s subject, what string) error {
	read, err := client.Get(ctx, s.object.GetName(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", what, err)
	}
	if err := s.holds(read, before); err != nil {
		return fmt.Errorf("%s is not read as it was created: %w", what, err)
	}
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: label + "=" + c.Name})
	if err != nil {
		return fmt.Errorf("cannot list %s: %w", what, err)
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("%d objects are listed where %s should be alone", len(list.Items), what)
	}
	c.report("read", what)

	if err := s.set(read, after); err != nil {
		return err
	}
	changed, err := client.Update(ctx, read, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("cannot change %s: %w", what, err)
	}
	if err := s.holds(changed, after); err != nil {
		return fmt.Errorf("%s is not as it was changed: %w", what, err)
	}
	c.report("changed", what)
	return nil
}

// cleanUp deletes what a failed run has left, even after its timeout.
func (c *Check) cleanUp(ctx context.Context, client dynamic.ResourceInterface, made *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	err := client.Delete(ctx, made.GetName(), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot delete %s %s, which is left: %w", made.GetKind(), made.GetName(), err)
	}
	return nil
}

func (c *Check) report(done, what string) { c.Report(Step{Done: done, What: what}) }

// expect waits for an event.
func expect(ctx context.Context, events watch.Interface, want watch.EventType, what string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no event %s came for %s: %w", want, what, context.Cause(ctx))
		case event, open := <-events.ResultChan():
			switch {
			case !open:
				return fmt.Errorf("the watch ended before an event %s came for %s", want, what)
			case event.Type == watch.Error:
				return fmt.Errorf("the watch of %s failed: %w", what, apierrors.FromObject(event.Object))
			case event.Type == want:
				return nil
			}
		}
	}
}

func errorOr(err error, otherwise string) error {
	if err == nil {
		return errors.New(otherwise)
	}
	return err
}

// subject is an object for the check, and the path of the string in it that the check changes.
type subject struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
	path     []string
}

// Values of that string.
const (
	before = "one"
	after  = "two"
)

func (s subject) set(object *unstructured.Unstructured, value string) error {
	return unstructured.SetNestedField(object.Object, value, s.path...)
}

func (s subject) holds(object *unstructured.Unstructured, want string) error {
	got, _, err := unstructured.NestedString(object.Object, s.path...)
	if err == nil && got != want {
		err = fmt.Errorf("%v is %q, not %q", s.path, got, want)
	}
	return err
}
