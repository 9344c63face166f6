//! The outside systems: carries out the calls that the allocation protocol wants there.
//!
//! ```text
//!   Action::Remote ─▶ Outbox.outside ─▶ Outside::call ─▶ a back end of the pool ─▶ Event::Remote
//! ```
//!
//! What to call, and when again, is decided in `mooring_allocator_core::remote`. A back end knows one pool: where its system is,
//! its credentials, and what each call means there.

mod credentials;
mod kept;
mod openstack;
mod phpipam;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::future::LocalBoxFuture;
use mooring_allocator_core::names::PoolRef;
use mooring_allocator_core::remote::{Answer, Call, Failure};

use super::index::Index;
use super::send::Ended;
use crate::api::Client;
use crate::clock;
use crate::decode::pool::Spec;
use crate::ops::Ops;
use crate::settings::Settings;
use credentials::Secrets;
use openstack::OpenStack;
use phpipam::PhpIpam;

/// The back ends, by pool.
#[derive(Debug)]
pub struct Outside {
    secrets_namespace: Arc<str>,
    back_ends: HashMap<Arc<PoolRef>, BackEnd>,
}

/// A pool's back end. A pool whose spec has changed gets another one.
#[derive(Clone, Debug)]
enum BackEnd {
    PhpIpam(Rc<PhpIpam>),
    OpenStack(Rc<OpenStack>),
}

impl Outside {
    /// No back end yet.
    pub fn new(settings: &Settings) -> Self {
        Self { secrets_namespace: settings.secrets_namespace.as_str().into(), back_ends: HashMap::new() }
    }

    /// Carries out a call, within `deadline`.
    pub(super) fn call(
        &mut self,
        index: &Index,
        client: &Client,
        ops: &Arc<Ops>,
        call: Call,
        deadline: Duration,
    ) -> LocalBoxFuture<'static, Ended> {
        self.back_ends.retain(|pool, _| index.pools.contains_key(pool));
        let Call { id, pool, what } = call;
        let Some(back_end) = self.back_end(index, &pool) else {
            return Box::pin(async move { Ended::Outside(id, Err(Failure::NotSent)) });
        };
        let (namespace, longest) = match &back_end {
            BackEnd::PhpIpam(_) => (self.secrets_namespace.clone(), deadline),
            BackEnd::OpenStack(_) => (pool.namespace.clone(), deadline.max(openstack::PATIENCE)),
        };
        let secrets = Secrets { client: client.clone(), ops: ops.clone(), namespace, deadline };
        let deadline = longest;
        let looks = index.floating_ips.clone();
        let (ops, verb) = (ops.clone(), name(&what));
        Box::pin(async move {
            let began = clock::now();
            let answer = async {
                match back_end {
                    BackEnd::PhpIpam(one) => one.carry_out(&secrets, &what).await,
                    BackEnd::OpenStack(one) => {
                        let answer = one.carry_out(&secrets, &what).await;
                        if let Some(look) = one.look() {
                            looks.borrow_mut().insert(pool.clone(), look);
                        }
                        answer
                    }
                }
            };
            let lost = || Failure::Lost(format!("no answer within {} s", deadline.as_secs()));
            let result = tokio::time::timeout(deadline, answer).await.unwrap_or_else(|_| Err(lost()));
            let took = clock::now().saturating_sub(began);
            ops.metrics.outside_call(pool.kind.name(), verb, outcome(&result), took);
            if let Err(error) = &result {
                tracing::debug!(%pool, call = verb, %error, "outside system did not do what was asked");
            }
            Ended::Outside(id, result)
        })
    }

    fn back_end(&mut self, index: &Index, pool: &Arc<PoolRef>) -> Option<BackEnd> {
        let seen = &index.pools.get(pool)?.seen;
        match &seen.spec {
            Spec::PhpIpam(spec) => {
                let uid = seen.uid();
                if let Some(BackEnd::PhpIpam(known)) = self.back_ends.get(pool)
                    && known.is_of(spec, &uid)
                {
                    return Some(BackEnd::PhpIpam(known.clone()));
                }
                let new = BackEnd::PhpIpam(Rc::new(PhpIpam::new((**spec).clone(), &uid)));
                self.back_ends.insert(pool.clone(), new.clone());
                Some(new)
            }
            Spec::FloatingIps(spec, _) => {
                let uid = seen.uid();
                if let Some(BackEnd::OpenStack(known)) = self.back_ends.get(pool)
                    && known.is_of(spec, &uid)
                {
                    return Some(BackEnd::OpenStack(known.clone()));
                }
                let new = BackEnd::OpenStack(Rc::new(OpenStack::new((**spec).clone(), &pool.name, &uid)));
                self.back_ends.insert(pool.clone(), new.clone());
                Some(new)
            }
            Spec::Addresses(_) | Spec::Prefixes(_) | Spec::Metal3(..) => None,
        }
    }
}

/// A call's name, for metrics.
const fn name(what: &mooring_allocator_core::remote::What) -> &'static str {
    use mooring_allocator_core::remote::What;
    match what {
        What::Find(_) => "find",
        What::Allocate(..) => "allocate",
        What::Release(_) => "release",
        What::PutBack(_) => "put-back",
        What::Rewrite(..) => "rewrite",
        What::List => "list",
    }
}

/// A result's name, for metrics.
const fn outcome(result: &Result<Answer, Failure>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(Failure::Full(_)) => "full",
        Err(Failure::Unfit(_)) => "unfit",
        Err(Failure::Refused(_)) => "refused",
        Err(Failure::Lost(_)) => "lost",
        Err(Failure::NotSent) => "not-sent",
    }
}
