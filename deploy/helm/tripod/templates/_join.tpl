{{- /*
Copyright The Tripod Authors.
SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* What the containers of the Job have in common. A volume that one of them needs besides comes next. */ -}}
{{- define "tripod.join.container" -}}
image: {{ include "tripod.image" (dict "root" . "name" "tripod") }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
resources:
  {{- toYaml .Values.certificates.resources | nindent 2 }}
securityContext:
  {{- include "tripod.container.security" . | nindent 2 }}
volumeMounts:
  - {name: kubeconfig, mountPath: /etc/tripod/kubeconfig, readOnly: true}
{{- end -}}

{{- /* How they reach the API, as the administrator does. */ -}}
{{- define "tripod.join.access" -}}
- --kubeconfig=/etc/tripod/kubeconfig/kubeconfig
- --server=https://{{ include "tripod.host" . }}:{{ .Values.service.port }}
{{- end -}}

{{- /* The flags for what kubeadm installs on nodes. */ -}}
{{- define "tripod.join.addons" -}}
{{- range $flag, $name := dict "coredns" "coreDNS" "kube-proxy" "kubeProxy" }}
{{- $addon := get $.Values.join $name }}
{{- if include "tripod.enabled" (dict "root" $ "path" (printf "join.%s" $name)) }}
- --{{ $flag }}
{{- with $addon.imageRepository }}
- --{{ $flag }}-image-repository={{ . }}
{{- end }}
{{- with $addon.imageTag }}
- --{{ $flag }}-image-tag={{ . }}
{{- end }}
{{- if eq $name "kubeProxy" }}
- --kube-proxy-config=/etc/tripod/kubelet/kube-proxy.yaml
{{- end }}
{{- end }}
{{- end }}
{{- end -}}
