//! How a kube-apiserver is started.

use std::net::Ipv4Addr;

use super::{API_SERVER, Cluster};
use crate::host::{Host, Spec};
use crate::lab::Topology;

impl Cluster {
    pub(super) fn api_server(&self, host: &Host) -> Spec {
        let etcd = match self.topology {
            Topology::External(_) => self.members[0].ip4(),
            Topology::Segment | Topology::Stacked(_) => Ipv4Addr::LOCALHOST,
        };
        let file = |flag: &str, name: &str| format!("--{flag}={}", self.pki.path(name));
        let spec = Spec::new(API_SERVER, &self.binaries.kube_apiserver.path).args([
            format!("--etcd-servers=http://{etcd}:2379"),
            format!("--advertise-address={}", host.ip4()),
            // IPv4 as well; with 0.0.0.0 the API server would not answer on an IPv6 VIP.
            "--bind-address=::".into(),
            "--secure-port=6443".into(),
            "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112".into(),
            format!("--cert-dir={}", host.dir().join("certs").display()),
            file("tls-cert-file", "apiserver.crt"),
            file("tls-private-key-file", "apiserver.key"),
            file("client-ca-file", "ca.crt"),
            file("service-account-key-file", "sa.pub"),
            file("service-account-signing-key-file", "sa.key"),
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local".into(),
            "--authorization-mode=Node,RBAC".into(),
            // The second one as in OpenShift: to name an owner that waits needs a right on the owner's finalizers.
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement".into(),
            "--allow-privileged=true".into(),
        ]);
        match &self.audit_policy {
            Some(policy) => {
                let log = host.dir().join("audit.log");
                spec.arg(format!("--audit-policy-file={policy}")).arg(format!("--audit-log-path={}", log.display()))
            }
            None => spec,
        }
    }
}
