#!/bin/bash
# kubeadm init on the first control plane, with the VIP as the cluster's endpoint.
set -euo pipefail
[ ! -e /etc/kubernetes/lab-made ] || exit 0

# For machines that take minutes for what others do in seconds.
if [ "$SLOW" = yes ]; then
  timeouts='{controlPlaneComponentHealthCheck: 40m0s, kubeletHealthCheck: 40m0s, kubernetesAPICall: 40m0s, tlsBootstrap: 40m0s}'
  etcd='[{name: heartbeat-interval, value: "1000"}, {name: election-timeout, value: "10000"}]'
  elect='{name: leader-elect-lease-duration, value: 3m0s}, {name: leader-elect-renew-deadline, value: 2m30s}'
  elect+=', {name: leader-elect-retry-period, value: 10s}'
  grace=', {name: node-monitor-grace-period, value: 5m0s}'
  patches='{directory: /root/patches}'
  kubelet=$'nodeStatusUpdateFrequency: 30s\nnodeLeaseDurationSeconds: 240\nsyncFrequency: 2m0s'
fi

cat > /root/init.yaml << END
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: $NODE_IP}
certificateKey: $CERTIFICATE_KEY
bootstrapTokens:
- token: $TOKEN
  ttl: 0s
  usages: [signing, authentication]
  groups: ["system:bootstrappers:kubeadm:default-node-token"]
nodeRegistration:
  kubeletExtraArgs: [{name: node-ip, value: $NODE_IP}]
timeouts: ${timeouts-{\}}
patches: ${patches-{\}}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: $(kubeadm version --output short)
controlPlaneEndpoint: $VIP:6443
imageRepository: ${IMAGE_REPOSITORY:-registry.k8s.io}
encryptionAlgorithm: ECDSA-P256
networking: {podSubnet: 10.244.0.0/16}
dns: {disabled: $([ "$COREDNS" = on ] && echo false || echo true)}
etcd: {local: {extraArgs: ${etcd-[]}}}
controllerManager: {extraArgs: [${elect-}${grace-}]}
scheduler: {extraArgs: [${elect-}]}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
${kubelet-}
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: $KUBE_PROXY
ipvs: {strictARP: $([ "$KUBE_PROXY" = ipvs ] && echo true || echo false)}
END

kubeadm init --config /root/init.yaml --upload-certs --ignore-preflight-errors NumCPU,Mem
touch /etc/kubernetes/lab-made

for home in /root /home/vagrant; do
  mkdir -p "$home/.kube"
  cp /etc/kubernetes/admin.conf "$home/.kube/config"
  chown -R --reference "$home" "$home/.kube"
done
