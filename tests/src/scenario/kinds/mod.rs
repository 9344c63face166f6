//! The kinds on a real API server: CRDs, rules, versions, columns, policies, patches.

mod columns;
mod endpoint_policies;
mod install;
mod policies;
mod rules;
mod versions;
mod writes;

use super::story;
use crate::runner::Test;

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("kinds", install::established, "crds-install", 5),
        story!("kinds", install::replaced, "crds-replace-those-with-a-webhook", 5),
        story!("kinds", rules::pools, "rules-of-pools", 5).quick(),
        story!("kinds", rules::changes, "rules-of-changes", 5),
        story!("kinds", rules::standalone, "rules-of-claims-and-addresses", 5),
        story!("kinds", rules::large, "rules-of-large-pools", 5),
        story!("kinds", versions::old_form, "old-form-is-kept", 5),
        story!("kinds", versions::taken_over, "old-objects-are-taken-over", 5),
        story!("kinds", columns::tables, "columns", 5),
        story!("kinds", policies::in_use, "policy-pool-in-use", 5),
        story!("kinds", policies::shrink, "policy-pool-shrink", 5),
        story!("kinds", policies::finalizer, "policy-claim-finalizer", 5),
        story!("kinds", endpoint_policies::in_pool, "policy-endpoint-in-pool", 5),
        story!("kinds", endpoint_policies::not_anothers, "policy-endpoint-not-anothers", 5),
        story!("kinds", endpoint_policies::immutable, "policy-endpoint-immutable", 5),
        story!("kinds", writes::locked, "patches-are-locked", 5),
        story!("kinds", writes::statuses, "statuses-of-all-versions", 5),
    ]
}
