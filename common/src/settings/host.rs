//! Facts about the machine, for defaults.

/// Facts about the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// The host's name; in a pod without the host's network, the pod's. None if the kernel does not say.
    pub name: Option<String>,
    /// The namespace of the pod's service account, if one is mounted.
    pub pod_namespace: Option<String>,
}

/// The file in which the kernel gives the host's name.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
/// The file in which the kubelet puts the namespace of the pod's service account.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

impl Host {
    /// Reads the facts from this machine.
    #[must_use]
    pub fn read() -> Self {
        // Either file may be absent; where this matters, the setting's own error says what to do.
        let line = |path| std::fs::read_to_string(path).ok().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty());
        Self { name: line(HOSTNAME), pod_namespace: line(POD_NAMESPACE) }
    }
}
