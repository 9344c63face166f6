//! Pools of OpenStack's floating IPs: their plan, and what they say about their use.

use mooring_allocator_core::pool::{Network, Plan, SpecError};
use mooring_allocator_core::remote::{Drift, Orphans, RemoteSpec};
use mooring_allocator_openstack::spec;
use mooring_api::conditions::{self, Condition, OPENSTACK_AUTHENTICATION};
use mooring_api::pool::FloatingIpPoolSpec;

/// Requests under way at a time: Neutron makes a few floating IPs a second.
const CALLS: usize = 4;
/// What is said of a pool that another program works on.
const SERVED_TWICE: &str = "the provider for OpenStack logs in for this pool too, and gives floating IPs of its own: name a Secret \
                            that has mooring.clouds.yaml in place of clouds.yaml";

/// The plan of a pool of floating IPs.
///
/// # Errors
/// What is wrong in the spec.
pub fn plan(pool: &FloatingIpPoolSpec, network: Network) -> Result<Plan, Vec<SpecError>> {
    let errors: Vec<SpecError> = spec::errors(pool).iter().map(|error| SpecError::Outside(error.to_string())).collect();
    if errors.is_empty() { Ok(Plan::of_outside(network, None)) } else { Err(errors) }
}

/// Whether the provider for OpenStack works on the pool too: it has logged in for it.
#[must_use]
pub fn is_served_twice(conditions: &[Condition]) -> bool {
    conditions::find(conditions, OPENSTACK_AUTHENTICATION).is_some_and(Condition::is_true)
}

/// How a pool of floating IPs is used. `conditions`: those that its status has.
#[must_use]
pub fn use_of(conditions: &[Condition]) -> RemoteSpec {
    RemoteSpec {
        calls: CALLS,
        // A floating IP costs money, and says whose it is: one whose claim is surely gone is let go.
        orphans: Orphans::Release,
        drift: Drift::PutBack,
        warning: if is_served_twice(conditions) { SERVED_TWICE.to_owned() } else { String::new() },
    }
}

#[cfg(test)]
mod tests {
    use mooring_api::pool::IdentityRef;

    use super::*;

    #[test]
    fn a_spec_that_makes_no_sense_gives_nothing_and_says_why() {
        let identity_ref = IdentityRef { kind: Some("ClusterIdentity".into()), ..IdentityRef::default() };
        let spec = FloatingIpPoolSpec { given: vec!["here".into()], identity_ref, ..FloatingIpPoolSpec::default() };
        let errors: Vec<String> = plan(&spec, Network::Common).unwrap_err().iter().map(ToString::to_string).collect();
        assert!(errors[0].contains("put clouds.yaml into a Secret") && errors[1].contains("\"here\""), "{errors:?}");
        assert!(plan(&FloatingIpPoolSpec::default(), Network::Common).is_ok());
    }

    #[test]
    fn it_is_told_that_another_program_logs_in_for_the_pool() {
        let logged_in = |status: &str| {
            let (type_, status) = (OPENSTACK_AUTHENTICATION.to_owned(), status.to_owned());
            use_of(&[Condition { type_, status, ..Condition::default() }]).warning
        };
        assert!(logged_in("True").contains("mooring.clouds.yaml"));
        assert_eq!(logged_in("False"), "");
    }
}
