// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package secrets

import (
	"fmt"
	"slices"
	"time"

	"github.com/tripod-k8s/tripod/base/certs"
)

// stepAnnotation is on the Secret of an authority during a rotation. It has the time of the last step.
const stepAnnotation = "certificates.tripod-k8s.io/rotation-step-taken"

// authority makes an authority and what it issues, and takes the next step of its rotation if that is due.
func (a *apply) authority(c AuthorityConfig) (certs.Rotation, error) {
	authority, err := a.issuer.Authority(c.Secret, c.CommonName)
	if err != nil {
		return "", err
	}
	changed, err := a.ensure(authority, c.Secret)
	if err != nil {
		return "", err
	}
	state, err := authority.Rotation()
	if err != nil {
		return "", err
	}
	if _, done := a.written[c.Secret]; done {
		return state, nil
	}
	begun, rotating := a.stepTaken(c.Secret)
	due := !c.ManualRotation && (rotating && state != certs.NotRotating || state == certs.NotRotating && a.endsSoon(authority))
	asked := slices.Contains(a.options.Rotate, c.Secret)
	switch settled := begun.Add(a.options.Settle); {
	case changed && state != certs.NotRotating:
		// A step was interrupted before all could know. The time to settle begins again.
		a.stampStep(c.Secret)
		return state, nil
	case !asked && !due:
		return state, nil
	case a.now().Before(settled) && asked:
		return "", fmt.Errorf("cannot rotate %s again before %s: the step that was taken at %s is not yet in force everywhere (see --settle)",
			c.Secret, settled.Format(time.TimeOnly), begun.Format(time.TimeOnly))
	case a.now().Before(settled):
		return state, nil
	}
	if state, err = authority.Rotate(); err != nil {
		return "", err
	}
	if state == certs.NotRotating {
		delete(a.secrets.byName[c.Secret].now.Annotations, stepAnnotation)
	} else {
		a.stampStep(c.Secret)
	}
	_, err = a.ensure(authority, c.Secret)
	return state, err
}

// endsSoon reports whether the authority expires too soon for certificates that it would issue now.
func (a *apply) endsSoon(authority *certs.Authority) bool {
	lifetimes := a.lifetimes()
	return a.now().Add(min(lifetimes.Leaf+lifetimes.RenewBefore, lifetimes.Authority/2)).After(authority.Certificate().NotAfter)
}

// stepTaken returns the time of the last step, if a rotation is under way.
func (a *apply) stepTaken(secret string) (time.Time, bool) {
	value, ok := a.secrets.byName[secret].now.Annotations[stepAnnotation]
	taken, err := time.Parse(time.RFC3339, value)
	return taken, ok && err == nil
}

func (a *apply) stampStep(secret string) {
	object := a.secrets.byName[secret].now
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[stepAnnotation] = a.now().UTC().Format(time.RFC3339)
}
