#!/bin/bash
# Asks from the host, as a stranger would: the API server through the VIP, the nodes, the Service. Run it after `vagrant up`, in this
# folder; LAB_WAIT is how many seconds each may take.
set -euo pipefail
cd "$(dirname "$0")"

# As the Vagrantfile does: the environment wins.
while IFS='=' read -r name value; do
  case $name in LAB_*) [ -n "${!name+given}" ] || declare "$name=$value" ;; esac
done < settings
wait=${LAB_WAIT:-$([ "$LAB_SLOW" = yes ] && echo 3600 || echo 300)}
vip=$LAB_NETWORK.$LAB_VIP
service=$LAB_NETWORK.${LAB_SERVICES%-*}
nodes=$((LAB_CONTROL_PLANES + LAB_WORKERS))

# until_true WHAT COMMAND...: again and again, until it succeeds.
until_true() {
  local what=$1 begin=$SECONDS
  shift
  until "$@"; do
    [ $((SECONDS - begin)) -lt "$wait" ] || { echo "waited $wait s for $what" >&2; exit 1; }
    sleep $(((wait + 149) / 150))
  done
  echo "$what: after $((SECONDS - begin)) s"
}
kubectl() { vagrant ssh cp1 --command "kubectl $*" 2> /dev/null | tr -d '\r'; }

api() { curl --silent --insecure --fail --max-time 10 --output /dev/null "https://$vip:6443/livez"; }
ready() { [ "$(kubectl get nodes --no-headers | grep -cw Ready)" = "$nodes" ]; }
answers() { curl --silent --fail --max-time 10 "http://$service/"; }

until_true "the API server answers on the VIP, https://$vip:6443" api
until_true "$nodes nodes are ready" ready
until_true "the Service answers on http://$service" answers
kubectl get nodes --output wide
kubectl get service web
kubectl --namespace kube-system get lease plndr-cp-lock
kubectl get pods --all-namespaces --output wide
