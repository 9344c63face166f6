#!/bin/bash
# A Service of type LoadBalancer, and what answers behind it.
set -euo pipefail
export KUBECONFIG=/etc/kubernetes/admin.conf

args=
for arg in $WEB_ARGS; do args="$args\"$arg\", "; done
kubectl apply --filename - << END
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: $WEB_IMAGE
        args: [${args%, }]
        env:
        - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
        readinessProbe: {httpGet: {path: /, port: 8080}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
END
