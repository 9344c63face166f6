#!/bin/bash
# Proves the lab on a machine without KVM, whose machines have no internet: makes a box, then `vagrant up`, check.sh, a power
# failure of the VIP's node, `vagrant destroy`. It will take an hour or more, and says what it does.
#
# It needs root, vagrant, vagrant-libvirt, libvirt, qemu, mmdebstrap, nft, the programs of `cargo lab kubeadm` (run that once), and
# the archives of `cargo lab release` in LAB_RELEASE. PROVE_FOLDER: 10 GB for the box and the disks. LAB_CONTROL_PLANES=1 is for
# two processors: an emulated control plane takes one of its own, even if nothing happens.
set -euo pipefail
cd "$(dirname "$0")"
# shellcheck source=prove/settings.sh
. prove/settings.sh
vip=$LAB_NETWORK.$LAB_VIP
service=$LAB_NETWORK.${LAB_SERVICES%-*}
say() { printf '%5d s  %s\n' "$SECONDS" "$*"; }
# Each line with the second in which it came, without what a bar of progress drew.
stamped() {
  sed --unbuffered -e 's/.*\r//; s/\x1b\[[0-9;]*[A-Za-z]//g; /^Progress:/d; /^ *$/d' |
    while IFS= read -r line; do say "$line"; done
}

# The box needs packages, and within the namespaces there is no network. The seconds go on there.
if [ ! -e "$PROVE_FOLDER/mooring.box" ]; then
  prove/offline.sh "$PROVE_FOLDER/offline" 2>&1 | stamped
  prove/box.sh "$PROVE_FOLDER/offline" "$PROVE_FOLDER/mooring.box" 2>&1 | stamped
fi
export SECONDS
[ "${PROVE_INSIDE-}" = yes ] || exec prove/namespaces.sh "$PWD/prove.sh"

rm -rf "$VAGRANT_DOTFILE_PATH"
vagrant box add --force --name "$LAB_BOX" --provider libvirt "$PROVE_FOLDER/mooring.box" 2>&1 | stamped
trap 'vagrant destroy --force 2>&1 | stamped' EXIT
vagrant up --no-parallel 2>&1 | stamped
./check.sh 2>&1 | stamped

# ready ADDRESS: asks the API server there.
ready() { curl --silent --insecure --fail --max-time 10 --output /dev/null "https://$1:6443/readyz"; }
# The machine whose MAC address this host has for the VIP.
holder() {
  local mac machine
  mac=$(ip neighbour show "$vip" | grep --only-matching 'lladdr [^ ]*' | cut -d ' ' -f 2)
  for machine in $(virsh list --name); do
    ! virsh domiflist "$machine" | grep --quiet "${mac:-none}" || echo "$machine"
  done
}

ready "$vip"
first=$(holder)
say "the VIP is on $first; now it loses its power"
begin=${EPOCHREALTIME/./}
since() { echo "$(((${EPOCHREALTIME/./} - begin) / 1000)) ms"; }
virsh --quiet destroy "$first"
if [ "$LAB_CONTROL_PLANES" -gt 1 ]; then
  until timeout 1 bash -c "exec 3<> /dev/tcp/$vip/6443" 2> /dev/null; do sleep 0.1; done
  say "after $(since) the VIP takes connections on $(holder)"
  until ready "$vip"; do sleep 0.2; done
  say "after $(since) the API server on the VIP is ready"
else
  say "there is no other control plane"
fi
curl --silent --fail --max-time 60 "http://$service/" | stamped

virsh --quiet start "$first"
begin=${EPOCHREALTIME/./}
say "$first has its power back"
until ready "$LAB_NETWORK.1${first#mooring-cp}"; do sleep 2; done
say "after $(since) its own API server is ready"
./check.sh 2>&1 | stamped
say "all of it was seen"
