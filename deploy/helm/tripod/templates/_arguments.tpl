{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The flags of a service, as lines of a YAML list: dict root, component, values. */ -}}
{{- define "tripod.arguments" -}}
{{- include (printf "tripod.arguments.%s" (ternary "additional" (include "tripod.program" .) (eq (include "tripod.isAdditional" .) "true"))) . }}
{{- include "tripod.arguments.shared" . }}
{{- if not (include "tripod.additional.unstored" .) }}
{{- include "tripod.arguments.etcd" . }}
{{- end }}
{{- include "tripod.arguments.audit" . }}
{{- range .values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "tripod.arguments.core" -}}
{{- $values := .root.Values -}}
{{- include "tripod.arguments.backend" . }}
{{- include "tripod.arguments.clients" . }}
- --aggregator-servers=https://{{ include "tripod.host" .root }}:{{ $values.service.port }}
- --advertise-port={{ (include "tripod.advertise" .root | fromJson).port }}
- --service-cluster-ip-range={{ $values.serviceClusterIPRange }}
- --service-account-issuer={{ $values.serviceAccounts.issuer }}
- --service-account-key-file=/etc/tripod/pki/service-account/tls.crt
- --service-account-signing-key-file=/etc/tripod/pki/service-account/tls.key
{{- with $values.serviceAccounts.apiAudiences }}
- --api-audiences={{ join "," (prepend . $values.serviceAccounts.issuer) }}
{{- end }}
{{- with $values.serviceAccounts.jwksURI }}
- --service-account-jwks-uri={{ . }}
{{- end }}
{{- with $values.serviceAccounts.maxTokenExpiration }}
- --service-account-max-token-expiration={{ . }}
{{- end }}
- --kubelet-client-certificate=/etc/tripod/pki/kubelet-client/tls.crt
- --kubelet-client-key=/etc/tripod/pki/kubelet-client/tls.key
- --bind-kubelet-client
- --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
- --allow-privileged=true
- --enable-bootstrap-token-auth={{ $values.authentication.bootstrapTokens }}
{{- include "tripod.arguments.oidc" $values.authentication }}
{{- include "tripod.arguments.admission" (dict "admission" $values.admission "enabled" $values.admission.enabledPlugins "disabled" $values.admission.disabledPlugins) }}
{{- end -}}

{{- define "tripod.arguments.extensions" -}}
{{- $values := .root.Values -}}
{{- include "tripod.arguments.backend" . }}
- --core-servers=dns:///{{ include "tripod.fullname" .root }}-core.{{ .root.Release.Namespace }}.svc:6443
- --aggregator-servers=https://{{ include "tripod.host" .root }}:{{ $values.service.port }}
{{- if include "tripod.isPartition" . }}
{{- include "tripod.partitions.arguments" . }}
{{- end }}
{{- range include "tripod.partitions.table" .root | fromJsonArray }}
- --partition-groups={{ . }}
{{- end }}
{{- include "tripod.arguments.admission.known" (dict "admission" $values.admission "known" (concat (include "tripod.admission.anything" . | fromJsonArray) (list "NamespaceAutoProvision" "NamespaceExists" "NamespaceLifecycle" "ResourceQuota"))) }}
{{- end -}}

{{- define "tripod.arguments.additional" -}}
{{- include "tripod.arguments.backend" . }}
- --core-servers=dns:///{{ include "tripod.fullname" .root }}-core.{{ .root.Release.Namespace }}.svc:6443
- --aggregator-servers=https://{{ include "tripod.host" .root }}:{{ .root.Values.service.port }}
{{- include "tripod.arguments.admission.known" (dict "admission" .root.Values.admission "known" (list "MutatingAdmissionPolicy" "MutatingAdmissionWebhook" "NamespaceLifecycle" "ValidatingAdmissionPolicy" "ValidatingAdmissionWebhook")) }}
{{- end -}}

{{- /* The plugins that decide about objects of any kind, in namespaces or not, as JSON. All other plugins concern built-in objects only. */ -}}
{{- define "tripod.admission.anything" -}}
{{- list "AlwaysAdmit" "AlwaysDeny" "MutatingAdmissionPolicy" "MutatingAdmissionWebhook" "OwnerReferencesPermissionEnforcement" "ValidatingAdmissionPolicy" "ValidatingAdmissionWebhook" | toJson -}}
{{- end -}}

{{- /* The admission flags of a service that has only some plugins: dict admission, known. */ -}}
{{- define "tripod.arguments.admission.known" }}
{{- $enabled := list }}
{{- range .admission.enabledPlugins }}{{ if has . $.known }}{{ $enabled = append $enabled . }}{{ end }}{{ end }}
{{- $disabled := list }}
{{- range .admission.disabledPlugins }}{{ if has . $.known }}{{ $disabled = append $disabled . }}{{ end }}{{ end }}
{{- include "tripod.arguments.admission" (dict "admission" .admission "enabled" $enabled "disabled" $disabled) }}
{{- end -}}

{{- define "tripod.arguments.aggregator" -}}
{{- $fullname := include "tripod.fullname" .root }}
{{- with (include "tripod.advertise" .root | fromJson).address }}
- --advertise-address={{ get (dict "podIP" "$(POD_IP)" "hostIP" "$(HOST_IP)") . | default . }}
{{- end }}
- --tls-cert-file=/etc/tripod/pki/apiserver/tls.crt
- --tls-private-key-file=/etc/tripod/pki/apiserver/tls.key
- --proxy-client-cert-file=/etc/tripod/pki/front-proxy-client/tls.crt
- --proxy-client-key-file=/etc/tripod/pki/front-proxy-client/tls.key
{{- include "tripod.arguments.clients" . }}
{{- range list "core" "extensions" }}
- --{{ . }}-servers=dns:///{{ $fullname }}-{{ . }}.{{ $.root.Release.Namespace }}.svc:6443
- --{{ . }}-grpc-servers=dns:///{{ $fullname }}-{{ . }}.{{ $.root.Release.Namespace }}.svc:6444
{{- end }}
{{- range $name := without (include "tripod.backends" .root | fromJsonArray) "core" "extensions" }}
- --backend={{ . }}=dns:///{{ $fullname }}-{{ . }}.{{ $.root.Release.Namespace }}.svc:6443
- --backend-grpc={{ . }}=dns:///{{ $fullname }}-{{ . }}.{{ $.root.Release.Namespace }}.svc:6444
{{- $values := include "tripod.values" (dict "root" $.root "component" .) | fromJson }}
{{- with $values.balance }}
- --backend-balance={{ $name }}={{ . }}
{{- end }}
{{- with $values.groups }}
- --backend-groups={{ $name }}={{ join "," . }}
{{- end }}
{{- end }}
{{- include "tripod.arguments.admission.known" (dict "admission" .root.Values.admission "known" (include "tripod.admission.anything" . | fromJsonArray)) }}
{{- end -}}

{{- /* The flags of services that only other services can reach. */ -}}
{{- define "tripod.arguments.backend" }}
- --grpc-bind-address=:6444
- --tls-cert-file=/etc/tripod/pki/service/tls.crt
- --tls-private-key-file=/etc/tripod/pki/service/tls.key
{{- end -}}

{{- /* The flags by which clients are authenticated. Core publishes them for the aggregator. */ -}}
{{- define "tripod.arguments.clients" }}
- --client-ca-file=/etc/tripod/pki/client-ca.crt
- --requestheader-client-ca-file=/etc/tripod/pki/front-proxy-ca.crt
- --requestheader-allowed-names=front-proxy-client
- --requestheader-username-headers=X-Remote-User
- --requestheader-uid-headers=X-Remote-Uid
- --requestheader-group-headers=X-Remote-Group
- --requestheader-extra-headers-prefix=X-Remote-Extra-
{{- with .root.Values.authentication }}
{{- if .config }}
- --authentication-config=/etc/tripod/config/authentication.yaml
{{- else }}
- --anonymous-auth={{ .anonymous }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The flags that every service has: how others find and authenticate it, what it shares with them, how it stops. */ -}}
{{- define "tripod.arguments.shared" }}
{{- $values := .root.Values }}
- --secure-port=6443
- --probe-bind-address=:6445
{{- /* A service that still waits for another one is alive, too. */}}
- --livez-grace-period=10m
- --external-hostname={{ default (printf "%s:%v" (include "tripod.host" .root) $values.service.port) $values.externalHostname }}
- --service-ca-file=/etc/tripod/pki/service-ca.crt
- --service-cert-file=/etc/tripod/pki/service/tls.crt
- --service-key-file=/etc/tripod/pki/service/tls.key
{{- if include "tripod.konnectivity.beside" . }}
- --egress-selector-config-file=/etc/tripod/konnectivity/egress.yaml
{{- end }}
{{- if $values.tracing.endpoint }}
- --tracing-config-file=/etc/tripod/config/tracing.yaml
{{- end }}
{{- /* API services of others learn from the aggregator who may do what, and have releases and groups of their own. */}}
{{- if not (include "tripod.isAdditional" .) }}
{{- if $values.authorization.config }}
- --authorization-config=/etc/tripod/config/authorization.yaml
{{- else }}
{{- /* No mode would allow every client everything. */}}
- --authorization-mode={{ required "authorization.modes is needed where authorization.config is not given" $values.authorization.modes | join "," }}
{{- end }}
{{- with $values.featureGates }}
- --feature-gates={{ include "tripod.arguments.pairs" . }}
{{- end }}
{{- with $values.runtimeConfig }}
- --runtime-config={{ include "tripod.arguments.pairs" . }}
{{- end }}
{{- with $values.emulatedVersion }}
- --emulated-version={{ . }}
{{- end }}
{{- end }}
- --shutdown-delay-duration={{ .values.shutdown.delay }}s
- --shutdown-watch-termination-grace-period={{ .values.shutdown.watches }}s
- --logging-format={{ $values.logging.format }}
- --v={{ $values.logging.verbosity }}
{{- end -}}

{{- define "tripod.arguments.pairs" -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- $pairs = append $pairs (printf "%s=%v" $key $value) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "tripod.arguments.etcd" }}
- --etcd-servers={{ include "tripod.etcd.servers" . }}
{{- if include "tripod.etcd.secret" . }}
- --etcd-cafile=/etc/tripod/pki/etcd-ca.crt
- --etcd-certfile=/etc/tripod/pki/etcd-client/tls.crt
- --etcd-keyfile=/etc/tripod/pki/etcd-client/tls.key
{{- end }}
- --etcd-prefix={{ include "tripod.additional.prefix" . }}
{{- if and .root.Values.etcd.enabled (not (include "tripod.additional.etcd" . | fromJson)) }}
{{- /* Only the user root of etcd may know the size of the database. */}}
- --etcd-db-metric-poll-interval=0
{{- /* Only root may compact, too. etcd does it itself. */}}
- --etcd-compaction-interval=0
{{- end }}
{{- if include "tripod.encryption.secret" . }}
- --encryption-provider-config=/etc/tripod/encryption/config.yaml
- --encryption-provider-config-automatic-reload=true
{{- end }}
{{- end -}}

{{- define "tripod.arguments.audit" }}
{{- with .root.Values.audit }}
{{- if .policy }}
- --audit-policy-file=/etc/tripod/config/audit-policy.yaml
{{- with .log }}
{{- if .path }}
- --audit-log-path={{ .path }}
{{- if ne .path "-" }}
- --audit-log-maxage={{ .maxAge }}
- --audit-log-maxbackup={{ .maxBackups }}
- --audit-log-maxsize={{ .maxSize }}
{{- end }}
{{- end }}
{{- end }}
{{- if .webhook.secret }}
- --audit-webhook-config-file=/etc/tripod/audit-webhook/kubeconfig
- --audit-webhook-mode={{ .webhook.mode }}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "tripod.arguments.oidc" }}
{{- if and .oidc.issuerURL (not .config) }}
{{- with .oidc }}
- --oidc-issuer-url={{ .issuerURL }}
- --oidc-client-id={{ required "authentication.oidc.clientID is needed where authentication.oidc.issuerURL is given" .clientID }}
- --oidc-username-claim={{ .usernameClaim }}
{{- with .usernamePrefix }}
- --oidc-username-prefix={{ . }}
{{- end }}
{{- with .groupsClaim }}
- --oidc-groups-claim={{ . }}
{{- end }}
{{- with .groupsPrefix }}
- --oidc-groups-prefix={{ . }}
{{- end }}
{{- range $claim, $value := .requiredClaims }}
- {{ printf "--oidc-required-claim=%s=%s" $claim $value | quote }}
{{- end }}
{{- with .signingAlgorithms }}
- --oidc-signing-algs={{ join "," . }}
{{- end }}
{{- if .caSecret }}
- --oidc-ca-file=/etc/tripod/oidc/ca.crt
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "tripod.arguments.admission" }}
{{- with .enabled }}
- --enable-admission-plugins={{ join "," . }}
{{- end }}
{{- with .disabled }}
- --disable-admission-plugins={{ join "," . }}
{{- end }}
{{- if .admission.config }}
- --admission-control-config-file=/etc/tripod/config/admission.yaml
{{- end }}
{{- end -}}
