// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build kube1.36

package apiservice

// AllowCreateOnUpdate implements rest.RESTUpdateStrategy.
func (s strategy[T]) AllowCreateOnUpdate() bool { return s.CreateOnUpdate }

// AllowUnconditionalUpdate implements rest.RESTUpdateStrategy.
func (s strategy[T]) AllowUnconditionalUpdate() bool { return s.UnconditionalUpdate }

// AllowCreateOnUpdate implements rest.RESTUpdateStrategy. There is no status without an object.
func (s statusStrategy[T]) AllowCreateOnUpdate() bool { return false }
