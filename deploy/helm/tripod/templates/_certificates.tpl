{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The certificate authorities, by the suffixes of their Secrets after the fullname. */ -}}
{{- define "tripod.authorities" -}}
{{- $names := list "ca" "front-proxy-ca" "service-ca" -}}
{{- /* One for each etcd, so that a client of one etcd has no access to the other. */ -}}
{{- range fromJsonArray (include "tripod.etcd.names" .) -}}{{- $names = append $names (printf "%s-ca" .) -}}{{- end -}}
{{- if include "tripod.search.postgres" . -}}{{- $names = append $names "search-database-ca" -}}{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{- /* The certificates of the release, as a JSON list. Names of Secrets lack the fullname. */ -}}
{{- define "tripod.certificates" -}}
{{- $values := .Values -}}
{{- include "tripod.preset.check" . -}}
{{- $fullname := include "tripod.fullname" . -}}
{{- $public := list "kubernetes" "kubernetes.default" "kubernetes.default.svc" (printf "kubernetes.default.svc.%s" $values.clusterDomain) "localhost"
  $fullname (printf "%s.%s" $fullname .Release.Namespace) (include "tripod.host" .) (printf "%s.%s" (include "tripod.host" .) $values.clusterDomain) -}}
{{- $addresses := concat (list "127.0.0.1" "::1") (fromJsonArray (include "tripod.certificates.serviceIPs" .)) $values.certificates.extraIPs -}}
{{- $names := concat $public $values.certificates.extraNames -}}
{{- with include "tripod.gateway.host" . -}}{{- $names = append $names . -}}{{- end -}}
{{- if include "tripod.enabled" (dict "root" . "path" "join") -}}
{{- $of := required "join.endpoint is needed where join.enabled is true" $values.join.endpoint | include "tripod.certificates.host" | fromJson -}}
{{- $names = concat $names ($of.dnsNames | default list) -}}
{{- $addresses = concat $addresses ($of.ipAddresses | default list) -}}
{{- end -}}
{{- $client := list "client" -}}
{{- $both := list "server" "client" -}}
{{- $list := list
  (dict "name" "apiserver" "authority" "ca" "commonName" "kube-apiserver" "usages" (list "server")
    "dnsNames" (uniq $names) "ipAddresses" (uniq $addresses))
  (dict "name" "kubelet-client" "authority" "ca" "commonName" "kube-apiserver-kubelet-client" "usages" $client)
  (dict "name" "admin" "authority" "ca" "commonName" "kubernetes-admin" "organizations" (list "system:masters") "usages" $client)
  (dict "name" "front-proxy-client" "authority" "front-proxy-ca" "commonName" "front-proxy-client" "usages" $client) -}}
{{- range $component := include "tripod.components" . | fromJsonArray -}}
{{- $list = append $list (dict "name" $component "authority" "service-ca" "commonName" (printf "system:tripod:%s" $component) "usages" $both
  "dnsNames" (list (printf "%s.tripod-system.svc" $component))) -}}
{{- end -}}
{{- range $component := include "tripod.controllers" . | fromJson | keys | sortAlpha -}}
{{- $list = append $list (dict "name" $component "authority" "ca" "commonName" (printf "system:kube-%s" $component) "usages" $both
  "dnsNames" (list (include "tripod.controller.host" (dict "root" $ "component" $component)))) -}}
{{- end -}}
{{- if include "tripod.enabled" (dict "root" . "path" "konnectivity") -}}
{{- $list = append $list (merge (dict "name" "konnectivity" "authority" "ca" "commonName" (include "tripod.konnectivity.user" .) "usages" $both)
  (include "tripod.konnectivity.endpoint" . | include "tripod.certificates.host" | fromJson)) -}}
{{- end -}}
{{- range $etcd := fromJsonArray (include "tripod.etcd.names" .) -}}
{{- $authority := printf "%s-ca" $etcd -}}
{{- $list = append $list (dict "name" (printf "%s-server" $etcd) "authority" $authority "commonName" "etcd" "usages" $both "ipAddresses" (list "127.0.0.1" "::1")
  "dnsNames" (fromJsonArray (include "tripod.certificates.etcdNames" (dict "root" $ "name" $etcd)))) -}}
{{- /* Common names are users of etcd (tripod etcd access). The user root is for Jobs. */ -}}
{{- $list = append $list (dict "name" (printf "%s-client" $etcd) "authority" $authority "commonName" "root" "usages" $client) -}}
{{- range $component := fromJsonArray (include "tripod.etcd.users" (dict "root" $ "name" $etcd)) -}}
{{- $list = append $list (dict "name" (printf "%s-client-%s" $etcd $component) "authority" $authority "commonName" (printf "tripod-%s" $component) "usages" $client) -}}
{{- end -}}
{{- end -}}
{{- if include "tripod.search.postgres" . -}}
{{- $list = concat $list (list
  (dict "name" "search-database-server" "authority" "search-database-ca" "commonName" "search-database" "usages" (list "server")
    "dnsNames" (list (printf "%s-search-database.%s.svc" $fullname .Release.Namespace)))
  (dict "name" "search-database-client" "authority" "search-database-ca" "commonName" "search" "usages" $client)) -}}
{{- end -}}
{{- if $values.console.enabled -}}
{{- $own := dict -}}
{{- range include "tripod.console.hosts" . | fromJsonArray -}}
{{- $of := include "tripod.certificates.host" . | fromJson -}}
{{- range $kind := keys $of -}}{{- $_ := set $own $kind (concat (get $own $kind | default list) (get $of $kind) | uniq) -}}{{- end -}}
{{- end -}}
{{- $list = append $list (merge (dict "name" "console" "authority" "ca" "commonName" "tripod-console" "usages" (list "server")) $own) -}}
{{- end -}}
{{- if $values.metrics.serviceMonitor.enabled -}}
{{- $list = append $list (dict "name" "metrics-client" "authority" "ca" "commonName" "tripod:metrics" "organizations" (list "system:monitoring") "usages" $client) -}}
{{- end -}}
{{- toJson $list -}}
{{- end -}}

{{- /* The addresses of the kubernetes Service: the first of each range. */ -}}
{{- define "tripod.certificates.serviceIPs" -}}
{{- $addresses := list -}}
{{- range splitList "," .Values.serviceClusterIPRange -}}
{{- $network := first (splitList "/" (trim .)) -}}
{{- if contains ":" $network -}}
{{- $addresses = append $addresses (printf "%s1" $network) -}}
{{- else -}}
{{- $octets := splitList "." $network -}}
{{- $addresses = append $addresses (printf "%s.%d" (join "." (initial $octets)) (add1 (int (last $octets)))) -}}
{{- end -}}
{{- end -}}
{{- toJson $addresses -}}
{{- end -}}

{{- /* The names of the members of an etcd, as many as it may get: dict root, name. There is no wildcard, because a member resolves the names in the
certificate of a peer to see whether the peer has one of these addresses. */ -}}
{{- define "tripod.certificates.etcdNames" -}}
{{- $set := printf "%s-%s" (include "tripod.fullname" .root) .name -}}
{{- $service := printf "%s.%s.svc" $set .root.Release.Namespace -}}
{{- $names := list "localhost" $service (printf "%s.%s" $service .root.Values.clusterDomain) -}}
{{- range $i := until 5 -}}
{{- $names = append $names (printf "%s-%d.%s" $set $i $service) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{- /* All Secrets that the release makes, as a JSON list. */ -}}
{{- define "tripod.certificates.secrets" -}}
{{- $fullname := include "tripod.fullname" . -}}
{{- $secrets := list -}}
{{- range fromJsonArray (include "tripod.authorities" .) -}}{{- $secrets = append $secrets (printf "%s-%s" $fullname .) -}}{{- end -}}
{{- range fromJsonArray (include "tripod.certificates" .) -}}{{- $secrets = append $secrets (printf "%s-%s" $fullname .name) -}}{{- end -}}
{{- concat $secrets (list (printf "%s-service-account" $fullname) (printf "%s-kubeconfig" $fullname)) | toJson -}}
{{- end -}}

{{- /* The configuration of `tripod certs secrets`. */ -}}
{{- define "tripod.certificates.config" -}}
{{- $fullname := include "tripod.fullname" . -}}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "tripod.podLabels" (dict "root" . "component" "certificates") | nindent 2 }}
{{- if eq .Values.certificates.provider "job" }}
duration: {{ .Values.certificates.duration }}
renewBefore: {{ .Values.certificates.renewBefore }}
authorityDuration: {{ .Values.certificates.authorityDuration }}
authorities:
  {{- range fromJsonArray (include "tripod.authorities" .) }}
  - secret: {{ $fullname }}-{{ . }}
    commonName: {{ $fullname }}-{{ . }}
    {{- /* Clients have kubeconfigs with the first, and etcd reads its own at its start. So only a person may rotate these two. */}}
    {{- if or (eq . "ca") (hasPrefix "etcd" .) }}
    manualRotation: true
    {{- end }}
  {{- end }}
certificates:
  {{- range fromJsonArray (include "tripod.certificates" .) }}
  - secret: {{ $fullname }}-{{ .name }}
    authority: {{ $fullname }}-{{ .authority }}
    {{- omit . "name" "authority" | toYaml | nindent 4 }}
  {{- end }}
serviceAccountKey:
  secret: {{ $fullname }}-service-account
{{- end }}
kubeconfig:
  secret: {{ $fullname }}-kubeconfig
  name: {{ $fullname }}
  server: {{ default (printf "https://%s:%v" (include "tripod.host" .) .Values.service.port) .Values.kubeconfig.server }}
  client: {{ $fullname }}-admin
{{- end -}}

{{- /* The pod that renews certificates: dict root, config. config is the name of the ConfigMap and of the ServiceAccount. */ -}}
{{- define "tripod.certificates.pod" -}}
metadata:
  labels:
    {{- include "tripod.podLabels" . | nindent 4 }}
spec:
  {{- include "tripod.pod.common" (merge (dict "account" .config "token" true) .) | nindent 2 }}
  restartPolicy: OnFailure
  containers:
    - name: certificates
      image: {{ include "tripod.image" (merge (dict "name" "tripod") .) }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: [certs, secrets, --config=/etc/tripod/certificates/config.yaml]
      resources:
        {{- toYaml .root.Values.certificates.resources | nindent 8 }}
      securityContext:
        {{- include "tripod.container.security" . | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/tripod/certificates, readOnly: true}
  volumes:
    - name: config
      configMap:
        name: {{ include "tripod.fullname" .root }}-{{ .config }}
{{- end -}}

{{- /* The objects that this pod needs: dict root, component, config, annotations. */ -}}
{{- define "tripod.certificates.access" -}}
{{- $context := merge (dict "name" .config) . -}}
{{- $fullname := include "tripod.fullname" .root -}}
{{- $name := printf "%s-%s" $fullname .config -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  {{- include "tripod.metadata" $context | nindent 2 }}
automountServiceAccountToken: false
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "tripod.metadata" $context | nindent 2 }}
data:
  config.yaml: |
    {{- include "tripod.certificates.config" .root | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "tripod.metadata" $context | nindent 2 }}
rules:
  {{- if eq .root.Values.certificates.provider "cert-manager" }}
  {{- /* cert-manager makes this Secret. The kubeconfig is made from it. */}}
  - apiGroups: [""]
    resources: [secrets]
    verbs: [get]
    resourceNames: [{{ $fullname }}-admin]
  - apiGroups: [""]
    resources: [secrets]
    verbs: [get, update]
    resourceNames: [{{ $fullname }}-kubeconfig]
  {{- else }}
  - apiGroups: [""]
    resources: [secrets]
    verbs: [get, update]
    resourceNames:
      {{- include "tripod.certificates.secrets" .root | fromJsonArray | toYaml | nindent 6 }}
  {{- end }}
  {{- /* Authorization of a create request does not know the name of the object. */}}
  - apiGroups: [""]
    resources: [secrets]
    verbs: [create]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "tripod.metadata" $context | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{- /* The annotations of a hook: list of events, weight. Helm removes the objects of a hook that succeeded, and keeps those of one that failed. */ -}}
{{- define "tripod.hook" -}}
helm.sh/hook: {{ first . }}
helm.sh/hook-weight: {{ last . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- /* The host of a host:port, without brackets. */ -}}
{{- define "tripod.endpoint.host" -}}
{{- regexReplaceAll ":[0-9]+$" . "" | trimPrefix "[" | trimSuffix "]" -}}
{{- end -}}

{{- /* What a certificate has for the host of a host:port, as JSON {dnsNames} or {ipAddresses}. */ -}}
{{- define "tripod.certificates.host" -}}
{{- $host := include "tripod.endpoint.host" . -}}
{{- dict (ternary "ipAddresses" "dnsNames" (regexMatch "^[0-9.]+$|:" $host)) (list $host) | toJson -}}
{{- end -}}
