#!/bin/bash
# kubeadm join through the VIP, as a further control plane or as a worker.
set -euo pipefail
[ ! -e /etc/kubernetes/lab-made ] || exit 0

# Machines are made side by side: the first control plane may not be there yet.
end=$((SECONDS + WAIT))
until curl --silent --insecure --max-time 10 --output /dev/null --fail "https://$VIP:6443/livez"; do
  [ $SECONDS -lt $end ] || { echo "https://$VIP:6443 does not answer" >&2; exit 1; }
  sleep 2
done

if [ "$SLOW" = yes ]; then
  timeouts='{kubeletHealthCheck: 40m0s, kubernetesAPICall: 40m0s, etcdAPICall: 20m0s, tlsBootstrap: 40m0s, discovery: 40m0s}'
  [ "$ROLE" != control-plane ] || patches='{directory: /root/patches}'
fi
{
  cat << END
apiVersion: kubeadm.k8s.io/v1beta4
kind: JoinConfiguration
discovery:
  bootstrapToken: {apiServerEndpoint: "$VIP:6443", token: $TOKEN, unsafeSkipCAVerification: true}
nodeRegistration:
  kubeletExtraArgs: [{name: node-ip, value: $NODE_IP}]
timeouts: ${timeouts-{\}}
patches: ${patches-{\}}
END
  [ "$ROLE" != control-plane ] || cat << END
controlPlane:
  localAPIEndpoint: {advertiseAddress: $NODE_IP}
  certificateKey: $CERTIFICATE_KEY
END
} > /root/join.yaml
kubeadm join --config /root/join.yaml --ignore-preflight-errors NumCPU,Mem
touch /etc/kubernetes/lab-made

end=$((SECONDS + WAIT))
until kubectl --kubeconfig /etc/kubernetes/kubelet.conf get node "$(hostname)" |& grep -w Ready; do
  [ $SECONDS -lt $end ] || { echo "$(hostname) is not ready" >&2; exit 1; }
  sleep $((WAIT / 300))
done
