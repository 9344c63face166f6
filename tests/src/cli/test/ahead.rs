//! Programs of others that tests need: fetched or built before anything starts. That takes minutes the first time, which is longer
//! than a story may take, and would take the processors from what runs beside it.

use crate::assets::{self, Error, Manager, Product, Profile, Project};
use crate::{progress, userns};

/// What some tests need beside a cluster.
struct Need {
    what: &'static str,
    /// How the GROUP/NAME of those tests begin.
    tests: &'static [&'static str],
    get: fn() -> Result<(), Error>,
}

/// All of it. Where it cannot be had, the tests say so, or are skipped.
const NEEDS: [Need; 10] = [
    Need {
        what: "the kinds of Cluster API",
        tests: &[
            "adapter",
            "contract",
            "endpoint",
            "kinds",
            "metal3",
            "migration",
            "openstack",
            "phpipam",
            "random",
            "rights",
            "storm",
        ],
        get: || {
            for project in [Project::ClusterApi, Project::KubeadmControlPlane, Project::InClusterProvider] {
                assets::crds(project)?;
            }
            Ok(())
        },
    },
    Need {
        what: "the managers of Cluster API",
        tests: &["endpoint/with-"],
        get: || Manager::NEEDED.into_iter().try_for_each(managed),
    },
    Need {
        what: "the provider for development of Cluster API",
        tests: &["endpoint/with-the-in-memory-backend"],
        get: || managed(Manager::Development),
    },
    Need {
        what: "client-go's elector",
        tests: &["migration/back", "mixed", "placements"],
        get: || assets::go_program("elector").map(drop),
    },
    Need { what: "kube-proxy", tests: &["traffic"], get: || assets::kube_proxy().map(drop) },
    Need {
        what: "the agent of before",
        tests: &["services/agents-of-before"],
        get: || assets::earlier_agent(assets::BEFORE_MEMBERS).map(drop),
    },
    Need { what: "helm", tests: &["shipped/charts"], get: || assets::helm().map(drop) },
    Need { what: "cargo-deny", tests: &["shipped/crates"], get: || assets::cargo_deny().map(drop) },
    Need { what: "what a kubeadm cluster is made of", tests: &["kubeadm"], get: kubeadm },
    Need { what: "Neutron and Keystone", tests: &["openstack/real"], get: || assets::openstack().map(drop) },
];

/// Gets what the tests with these titles need, and says what it does. `cluster`: whether one of them needs a cluster.
///
/// # Errors
/// There is no cluster without it: etcd, kube-apiserver, our own programs.
pub fn get(titles: &[String], cluster: bool) -> Result<(), Error> {
    if cluster {
        assets::find()?;
        assets::agent(Profile::Dev)?;
        assets::allocator(Profile::Dev)?;
    }
    let needed = |need: &&Need| need.tests.iter().any(|test| titles.iter().any(|title| title.starts_with(test)));
    for need in NEEDS.iter().filter(needed) {
        if let Err(error) = (need.get)() {
            progress::line(format_args!(
                "{} cannot be had; the tests that need it say what follows: {error}",
                need.what
            ));
        }
    }
    Ok(())
}

fn managed(manager: Manager) -> Result<(), Error> {
    assets::manager(manager)?;
    assets::managed_crds(manager).map(drop)
}

fn kubeadm() -> Result<(), Error> {
    use Product::{KubeControllerManager, KubeProxy, KubeScheduler, Kubeadm, Kubectl, Kubelet};

    // Others cannot run it, and its test is skipped.
    if !userns::is_machine_root() {
        return Ok(());
    }
    for product in [Kubeadm, Kubectl, Kubelet, KubeControllerManager, KubeScheduler, KubeProxy] {
        assets::one(product)?;
    }
    assets::go_program("pod")?;
    assets::containers().map(drop)
}
