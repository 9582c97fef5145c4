{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The files of a service other than certificates, as JSON from file name to content: dict root, component. */ -}}
{{- define "tripod.config.files" -}}
{{- $values := .root.Values -}}
{{- $files := dict -}}
{{- with $values.audit.policy -}}{{- $_ := set $files "audit-policy.yaml" . -}}{{- end -}}
{{- with $values.authorization.config -}}{{- $_ := set $files "authorization.yaml" . -}}{{- end -}}
{{- if has .component (list "aggregator" "core") -}}
{{- with $values.authentication.config -}}{{- $_ := set $files "authentication.yaml" . -}}{{- end -}}
{{- end -}}
{{- with $values.admission.config -}}{{- $_ := set $files "admission.yaml" . -}}{{- end -}}
{{- with $values.tracing -}}
{{- if .endpoint -}}
{{- $_ := set $files "tracing.yaml" (dict "apiVersion" "apiserver.config.k8s.io/v1" "kind" "TracingConfiguration" "endpoint" .endpoint "samplingRatePerMillion" (int .samplingRatePerMillion)) -}}
{{- end -}}
{{- end -}}
{{- toJson $files -}}
{{- end -}}

{{- /* Those of these files that services read only at their start. */ -}}
{{- define "tripod.config.checksum" -}}
{{- $files := fromJson (include "tripod.config.files" .) -}}
{{- pick $files "audit-policy.yaml" "admission.yaml" "tracing.yaml" | toJson | sha256sum -}}
{{- end -}}

{{- /* The name of the Secret with the encryption configuration for a component, or nothing: dict root, component. */ -}}
{{- define "tripod.encryption.secret" -}}
{{- with .root.Values.encryption -}}
{{- if and (eq $.component "aggregator") (ne (include "tripod.encryption.apiServices" .) "true") -}}
{{- else if and (include "tripod.isAdditional" $) (or (not (include "tripod.values" $ | fromJson).encryption) (include "tripod.additional.unstored" $)) -}}
{{- else if .existingSecret -}}
{{ .existingSecret }}
{{- else if .config -}}
{{ include "tripod.fullname" $.root }}-encryption
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Whether APIServices are encrypted, so that the aggregator needs the keys. A Secret cannot be looked into: then the value decides. */ -}}
{{- define "tripod.encryption.apiServices" -}}
{{- if not (kindIs "invalid" .apiServices) -}}
{{- .apiServices -}}
{{- else if .existingSecret -}}
true
{{- else -}}
{{- $names := list -}}
{{- range .config.resources -}}{{- $names = concat $names .resources -}}{{- end -}}
{{- or (has "*.*" $names) (has "*.apiregistration.k8s.io" $names) (has "apiservices.apiregistration.k8s.io" $names) -}}
{{- end -}}
{{- end -}}

{{- /* Volumes with files of a service, and where they are mounted, as JSON {volumes, mounts}: dict root, component. */ -}}
{{- define "tripod.config.volumes" -}}
{{- $values := .root.Values -}}
{{- $volumes := list (include "tripod.pki.volume" . | fromYaml) (dict "name" "tmp" "emptyDir" (dict)) -}}
{{- $mounts := list (dict "name" "pki" "mountPath" "/etc/tripod/pki" "readOnly" true) (dict "name" "tmp" "mountPath" "/tmp") -}}
{{- if include "tripod.konnectivity.beside" . -}}
{{- $volumes = concat $volumes (include "tripod.konnectivity.volumes" .root | fromYamlArray) -}}
{{- $mounts = concat $mounts (include "tripod.konnectivity.mounts" . | fromYamlArray) -}}
{{- end -}}
{{- if fromJson (include "tripod.config.files" .) -}}
{{- $volumes = append $volumes (dict "name" "config" "configMap" (dict "name" (printf "%s-%s" (include "tripod.fullname" .root) .component))) -}}
{{- $mounts = append $mounts (dict "name" "config" "mountPath" "/etc/tripod/config" "readOnly" true) -}}
{{- end -}}
{{- $secrets := dict "encryption" (include "tripod.encryption.secret" .) -}}
{{- if $values.audit.policy -}}
{{- $_ := set $secrets "audit-webhook" $values.audit.webhook.secret -}}
{{- if hasPrefix "/var/log/tripod/" $values.audit.log.path -}}
{{- $volumes = append $volumes (merge (dict "name" "audit-log") (default (dict "emptyDir" (dict)) $values.audit.log.volume)) -}}
{{- $mounts = append $mounts (dict "name" "audit-log" "mountPath" "/var/log/tripod") -}}
{{- end -}}
{{- end -}}
{{- if and (eq .component "core") $values.authentication.oidc.issuerURL -}}
{{- $_ := set $secrets "oidc" $values.authentication.oidc.caSecret -}}
{{- end -}}
{{- range $name, $secret := $secrets -}}
{{- if $secret -}}
{{- $volumes = append $volumes (dict "name" $name "secret" (dict "secretName" $secret "defaultMode" 0440)) -}}
{{- $mounts = append $mounts (dict "name" $name "mountPath" (printf "/etc/tripod/%s" $name) "readOnly" true) -}}
{{- end -}}
{{- end -}}
{{- $own := include "tripod.values" . | fromJson -}}
{{- dict "volumes" (concat $volumes $own.volumes) "mounts" (concat $mounts $own.volumeMounts) | toJson -}}
{{- end -}}
