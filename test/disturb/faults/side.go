// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// side is a kind of cluster.
type side struct {
	name string
	// stock uses kube-apiservers instead of Tripod's services.
	stock bool
	// replicas is the number of replicas of each service, or of kube-apiserver. members is that of etcd.
	replicas, members int
}

// The names of sides.
const (
	tripod       = "Tripod"
	stock        = "kube-apiserver"
	singleTripod = "single Tripod"
	singleStock  = "single kube-apiserver"
	tripodOn3    = "Tripod on 3 etcd"
	stockOn3     = "kube-apiserver on 3 etcd"
)

// allSides are in the order in which they start. The one with most faults is first.
var allSides = []side{
	{name: tripod, replicas: 2, members: 1},
	{name: stock, stock: true, replicas: 2, members: 1},
	{name: tripodOn3, replicas: 2, members: 3},
	{name: stockOn3, stock: true, replicas: 2, members: 3},
	{name: singleTripod, replicas: 1, members: 1},
	{name: singleStock, stock: true, replicas: 1, members: 1},
}

// Sides that share faults.
var (
	ours         = []string{tripod}
	oursOrSingle = []string{tripod, singleTripod}
	both         = []string{tripod, stock}
	bothOrSingle = []string{tripod, stock, singleTripod, singleStock}
	on3          = []string{tripodOn3, stockOn3}
)

// sideOf returns the side with a name. An earlier run may have had other sides.
func sideOf(name string) side {
	if i := slices.IndexFunc(allSides, func(s side) bool { return s.name == name }); i >= 0 {
		return allSides[i]
	}
	return side{name: name}
}

// stockOf returns the side with as many kube-apiservers, or "".
func stockOf(name string) string {
	return map[string]string{tripod: stock, tripodOn3: stockOn3, singleTripod: singleStock}[name]
}
