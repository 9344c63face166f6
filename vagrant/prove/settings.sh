# shellcheck shell=bash
# What the proof's lab is made of, and where: sourced.
PROVE_FOLDER=${PROVE_FOLDER:-${XDG_CACHE_HOME:-$HOME/.cache}/mooring/vagrant}
export PROVE_FOLDER VAGRANT_HOME=$PROVE_FOLDER/vagrant VAGRANT_DOTFILE_PATH=$PROVE_FOLDER/state
export VAGRANT_CHECKPOINT_DISABLE=1 VAGRANT_NO_COLOR=1 LIBVIRT_DEFAULT_URI=qemu:///system

export LAB_BOX=mooring/debian12 LAB_BOX_VERSION='' LAB_DRIVER=qemu LAB_SLOW=yes LAB_COREDNS=off
export LAB_CPUS=${LAB_CPUS:-1} LAB_MEMORY=${LAB_MEMORY:-1536} LAB_WORKER_MEMORY=${LAB_WORKER_MEMORY:-1024} LAB_CONTROL_PLANES=${LAB_CONTROL_PLANES:-3} LAB_WORKERS=1
export LAB_NETWORK=192.168.77 LAB_VIP=10 LAB_SERVICES=200-220 LAB_KUBE_PROXY=nftables
export LAB_IMAGE_REPOSITORY=lab.mooring.dev/k8s LAB_WEB_IMAGE=lab.mooring.dev/backend:1 LAB_WEB_ARGS=:8080
export LAB_AGENT_FLAGS=${LAB_AGENT_FLAGS---lease-duration 60s --renew-deadline 40s --retry-period 5s --witness-interval 1s}
