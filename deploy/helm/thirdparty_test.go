// Copyright The Tripod Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// thirdPartyKinds has the kinds of other projects. Their types here have only the fields that the chart uses, so that the tests do not
// depend on these projects.
var thirdPartyKinds = map[schema.GroupKind]func() any{
	{Group: "cert-manager.io", Kind: "Issuer"}:               func() any { return &issuer{} },
	{Group: "cert-manager.io", Kind: "Certificate"}:          func() any { return &certificate{} },
	{Group: "gateway.networking.k8s.io", Kind: "TLSRoute"}:   func() any { return &tlsRoute{} },
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}: func() any { return &serviceMonitor{} },
	{Group: "monitoring.coreos.com", Kind: "PrometheusRule"}: func() any { return &prometheusRule{} },
}

type thirdParty struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

type issuer struct {
	thirdParty `json:",inline"`
	Spec       struct {
		SelfSigned *struct{} `json:"selfSigned"`
		CA         *struct {
			SecretName string `json:"secretName"`
		} `json:"ca"`
	} `json:"spec"`
}

type certificate struct {
	thirdParty `json:",inline"`
	Spec       struct {
		CommonName  string          `json:"commonName"`
		SecretName  string          `json:"secretName"`
		IsCA        bool            `json:"isCA"`
		Duration    metav1.Duration `json:"duration"`
		RenewBefore metav1.Duration `json:"renewBefore"`
		DNSNames    []string        `json:"dnsNames"`
		IPAddresses []string        `json:"ipAddresses"`
		Usages      []string        `json:"usages"`
		Subject     struct {
			Organizations []string `json:"organizations"`
		} `json:"subject"`
		PrivateKey struct {
			Algorithm      string `json:"algorithm"`
			Size           int    `json:"size"`
			RotationPolicy string `json:"rotationPolicy"`
		} `json:"privateKey"`
		IssuerRef struct {
			Name string `json:"name"`
		} `json:"issuerRef"`
	} `json:"spec"`
}

type listener struct {
	Group       string `json:"group"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName"`
	Port        int32  `json:"port"`
}

type tlsRoute struct {
	thirdParty `json:",inline"`
	Spec       struct {
		ParentRefs []listener `json:"parentRefs"`
		Hostnames  []string   `json:"hostnames"`
		Rules      []struct {
			BackendRefs []struct {
				Name string `json:"name"`
				Port int32  `json:"port"`
			} `json:"backendRefs"`
		} `json:"rules"`
	} `json:"spec"`
}

type secretKey struct {
	Name string `json:"name"`
	Key  string `json:"key"`
}

type serviceMonitor struct {
	thirdParty `json:",inline"`
	Spec       struct {
		NamespaceSelector struct {
			MatchNames []string `json:"matchNames"`
		} `json:"namespaceSelector"`
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port          string              `json:"port"`
			Scheme        string              `json:"scheme"`
			Path          string              `json:"path"`
			Interval      string              `json:"interval"`
			ScrapeTimeout string              `json:"scrapeTimeout"`
			Params        map[string][]string `json:"params"`
			TLSConfig     *struct {
				ServerName string `json:"serverName"`
				CA         struct {
					Secret secretKey `json:"secret"`
				} `json:"ca"`
				Cert struct {
					Secret secretKey `json:"secret"`
				} `json:"cert"`
				KeySecret secretKey `json:"keySecret"`
			} `json:"tlsConfig"`
			RelabelConfigs []struct {
				SourceLabels []string `json:"sourceLabels"`
				TargetLabel  string   `json:"targetLabel"`
				Replacement  string   `json:"replacement"`
			} `json:"relabelings"`
		} `json:"endpoints"`
	} `json:"spec"`
}

type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type prometheusRule struct {
	thirdParty `json:",inline"`
	Spec       struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}
