//! Programs with the roles of `manifests` and nothing else: they do all that they are for, nothing that they ask is
//! refused, and no rule is there that they do not need. The API servers' audit logs say so.

mod claims;
mod control_plane;
mod phpipam;
mod services;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::story;
use crate::ipam::server::Server;
use crate::lab::Lab;
use crate::observe::audit::{Request, Tail};
use crate::observe::rights::{Right, wrong};
use crate::runner::Test;

/// The stories of this theme.
pub fn all() -> Vec<Test<()>> {
    vec![
        story!("rights", control_plane::all_that_it_does, "control-plane-daemonset", 5),
        story!("rights", claims::all_that_it_does, "claims-only-allocator", 5),
        story!("rights", phpipam::all_that_it_does, "phpipam-pools", 5),
        story!("rights", services::all_that_they_do, "agents-and-allocator", 5),
        story!("rights", services::before_the_new_rights, "agents-before-their-new-rights", 4),
    ]
}

/// Applies these objects.
async fn apply(server: &Server, objects: &[Value]) -> Result<()> {
    for object in objects {
        server.apply(object).await.with_context(|| format!("refused: {object}"))?;
    }
    Ok(())
}

/// Fails when the user may read one of these paths.
async fn refused(server: &Server, user: &str, paths: &[&str]) -> Result<()> {
    let confined = server.as_user(user).await?;
    for path in paths {
        let refused = confined.get(path).await.err().with_context(|| format!("{user} may read {path}"))?;
        ensure!(refused.code == 403, "{path}: {refused}");
    }
    Ok(())
}

/// Fails when the audit logs of the control planes show that `user`, by the program `agent`, was refused anything, or that it
/// did not need one of the rights in `roles`.
fn exact(lab: &Lab, (user, agent): (&str, &str), roles: &[Value]) -> Result<()> {
    let wrong = wrong(&Right::all(roles), &asked(lab, user, agent)?);
    ensure!(wrong.is_empty(), "the roles of {user}: {wrong:#?}");
    Ok(())
}

/// What `user` asked for by the program `agent`, as the audit logs of the control planes have it.
fn asked(lab: &Lab, user: &str, agent: &str) -> Result<Vec<Request>> {
    let mut asked = Vec::new();
    for host in lab.control_planes() {
        let all = Tail::of(&lab.host(&host)?.dir().join("audit.log")).read()?;
        asked.extend(all.into_iter().filter(|one| one.user == user && one.agent.starts_with(agent)));
    }
    ensure!(asked.len() > 10, "{user} asked for only {} things", asked.len());
    Ok(asked)
}
