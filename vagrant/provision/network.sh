#!/bin/bash
# The pod network: a bridge on each node, a route to the pods of each other node, and masquerading for what leaves the cluster.
# Node N.N.N.X has the pods 10.244.X.0/24.
set -euo pipefail

mkdir -p /etc/cni/net.d
cat > /etc/cni/net.d/10-lab.conflist << END
{
  "cniVersion": "1.0.0", "name": "lab",
  "plugins": [{
    "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.${NODE_IP##*.}.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
END

{
  echo '#!/bin/sh -e'
  for node in $NODES; do
    ip=${node#*=}
    [ "$ip" = "$NODE_IP" ] || echo "ip route replace 10.244.${ip##*.}.0/24 via $ip"
  done
  cat << END
nft -f - << RULES
table ip lab
delete table ip lab
table ip lab {
  chain out {
    type nat hook postrouting priority srcnat;
    ip saddr 10.244.0.0/16 ip daddr != { 10.244.0.0/16, ${NODE_IP%.*}.0/24 } masquerade
  }
}
RULES
END
} > /usr/local/sbin/lab-network
chmod 755 /usr/local/sbin/lab-network

cat > /etc/systemd/system/lab-network.service << 'END'
[Unit]
Description=Routes to the pods of other nodes
After=network-online.target
Wants=network-online.target
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/lab-network
RemainAfterExit=yes
Restart=on-failure
RestartSec=2
[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --quiet lab-network
systemctl restart lab-network
