#!/bin/bash
# VIPs of Services: the allocator, the agents' DaemonSet, and a pool. Its pods start when there is a worker.
set -euo pipefail
export KUBECONFIG=/etc/kubernetes/admin.conf
cd /home/vagrant/lab
tar --extract --file manifests.tar

# An archive names its image.
archived() {
  tar -xOf release/"$1"-*-"$(dpkg --print-architecture)".oci.tar index.json |
    grep -o '"io.containerd.image.name":"[^"]*"' | cut -d '"' -f 4
}
image() {
  local given=$1 program=$2
  [ -n "$given" ] || given=$(archived "$program")
  echo "- {name: $program, newName: ${given%:*}, newTag: \"${given##*:}\"}"
}

# The addresses are not on the network of the default route here: `auto` is the interface whose subnet has them.
cat > kustomization.yaml << END
resources: [manifests/overlays/services]
images:
$(image "$AGENT_IMAGE" mooring-agent)
$(image "$ALLOCATOR_IMAGE" mooring-allocator)
patches:
- target: {kind: DaemonSet, name: mooring-agent}
  patch: |
    - {op: add, path: /spec/template/spec/containers/0/env/-, value: {name: MOORING_SERVICES_INTERFACE, value: auto}}
END

# Objects of a kind are refused until the API server knows the kind: again, then.
end=$((SECONDS + WAIT))
until kubectl apply --server-side --force-conflicts --kustomize .; do
  [ $SECONDS -lt $end ] || exit 1
  sleep $((WAIT / 300))
done
kubectl --namespace kube-system create configmap kubevip --from-literal "range-global=$SERVICES" --dry-run=client --output yaml |
  kubectl apply --filename -
