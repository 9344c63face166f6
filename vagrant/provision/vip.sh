#!/bin/bash
# Mooring's static pod, as docs/src/install.md has it: the image prints the manifest, and it is there before kubeadm runs.
set -euo pipefail

# An archive names its image.
archived() {
  tar -xOf /home/vagrant/lab/release/mooring-agent-*-"$(dpkg --print-architecture)".oci.tar index.json |
    grep -o '"io.containerd.image.name":"[^"]*"' | cut -d '"' -f 4
}
image=${AGENT_IMAGE:-$(archived)}
# As containerd names it: mooring-agent:0.1.0 is docker.io/library/mooring-agent:0.1.0.
case $image in */*) full=$image ;; *) full=docker.io/library/$image ;; esac
[ -z "$AGENT_IMAGE" ] || ctr --namespace k8s.io images pull "$full" > /dev/null

# The network of the VIP is not that of the default route here.
interface=$(ip -oneline -4 address show to "$NODE_IP/32" | awk '{ print $2 }')
mkdir -p /etc/kubernetes/manifests
# shellcheck disable=SC2086 # several flags
ctr --namespace k8s.io run --rm "$full" print /mooring-agent \
  manifest static-pod --address "$VIP" --interface "$interface" --image "$image" $AGENT_FLAGS > /etc/kubernetes/manifests/.new
# A probe that comes late is no reason to end an agent on a slow machine.
[ "$SLOW" != yes ] || sed -i 's/failureThreshold: 3$/failureThreshold: 60/' /etc/kubernetes/manifests/.new
# The kubelet reads no file that begins with a dot, so it sees the whole file or none.
mv /etc/kubernetes/manifests/.new /etc/kubernetes/manifests/mooring-agent.yaml
