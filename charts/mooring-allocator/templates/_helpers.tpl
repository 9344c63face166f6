{{- define "mooring-allocator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end }}

{{/* The names of all objects begin with it: the release's name, with the chart's where it lacks that. */}}
{{- define "mooring-allocator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "mooring-allocator.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "mooring-allocator.labels" -}}
app.kubernetes.io/name: {{ include "mooring-allocator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: mooring
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "mooring-allocator.selector" -}}
app.kubernetes.io/name: {{ include "mooring-allocator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "mooring-allocator.account" -}}
{{- .Values.serviceAccountName | default (include "mooring-allocator.fullname" .) -}}
{{- end }}

{{/* Whether Services get addresses: yes, no, or as soon as the values name addresses for them. */}}
{{- define "mooring-allocator.services" -}}
{{- $enabled := toString .Values.services.enabled -}}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") .Values.services.configMap.data) -}}true{{- end -}}
{{- end }}

{{/* The container's environment; nothing where all is at its default. */}}
{{- define "mooring-allocator.env" -}}
{{- $configMap := printf "%s/%s" .Values.services.configMap.namespace .Values.services.configMap.name -}}
{{- if not (include "mooring-allocator.services" .) }}
- {name: MOORING_ALLOCATOR_SERVICES, value: "off"}
{{- else if ne $configMap "kube-system/kubevip" }}
- {name: MOORING_ALLOCATOR_SERVICES_CONFIGMAP, value: {{ $configMap | quote }}}
{{- end }}
{{- if .Values.metal3.enabled }}
- {name: MOORING_ALLOCATOR_METAL3, value: "on"}
{{- end }}
{{- if .Values.openstack.enabled }}
- {name: MOORING_ALLOCATOR_OPENSTACK, value: "on"}
{{- end }}
{{- if .Values.endpoints.enabled }}
- {name: MOORING_ALLOCATOR_ENDPOINTS, value: "on"}
{{- $kinds := list }}
{{- range .Values.endpoints.kinds }}
{{- $kinds = append $kinds (printf "%s.%s" .kind .group) }}
{{- end }}
{{- $kinds = join "," $kinds }}
{{- if ne $kinds "VSphereCluster.infrastructure.cluster.x-k8s.io" }}
- {name: MOORING_ALLOCATOR_ENDPOINT_KINDS, value: {{ $kinds | quote }}}
{{- end }}
{{- end }}
{{- if .Values.machineAddresses.enabled }}
- {name: MOORING_ALLOCATOR_MACHINE_ADDRESSES, value: "on"}
{{- end }}
{{- if .Values.phpipam.enabled }}
- {name: MOORING_ALLOCATOR_PHPIPAM, value: "on"}
- {name: MOORING_ALLOCATOR_SECRETS_NAMESPACE, value: {{ .Release.Namespace }}}
{{- end }}
{{- if ne .Values.leaseName "mooring-allocator" }}
- {name: MOORING_ALLOCATOR_LEASE_NAME, value: {{ .Values.leaseName | quote }}}
{{- end }}
{{- if not .Values.metrics.enabled }}
- {name: MOORING_ALLOCATOR_METRICS, value: "off"}
{{- else if ne (int .Values.metrics.port) 2114 }}
- {name: MOORING_ALLOCATOR_METRICS, value: {{ printf ":%d" (int .Values.metrics.port) | quote }}}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ printf "MOORING_ALLOCATOR_%s" ($name | upper | replace "-" "_") }}, value: {{ $value | toString | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
