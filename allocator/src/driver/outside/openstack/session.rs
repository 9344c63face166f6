//! A session with a cloud: a token, which is made again before it ends, or when it is refused.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use mooring_allocator_openstack::clouds::Cloud;
use mooring_allocator_openstack::fault::Fault;
use mooring_allocator_openstack::identity;
use mooring_allocator_openstack::neutron::Request;
use mooring_allocator_openstack::secret::Secret;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::http::{Ask, Service};

/// A token is made again this long before its end.
const MARGIN: Duration = Duration::from_mins(2);
/// The longest time that a token is kept, whatever Keystone says.
const LONGEST: Duration = Duration::from_hours(24);

/// A session.
pub(super) struct Session {
    cloud: Cloud,
    ca: Option<Vec<Vec<u8>>>,
    keystone: Service,
    open: Mutex<Option<Open>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("keystone", &self.cloud.keystone).finish_non_exhaustive()
    }
}

/// What Keystone has granted.
#[derive(Clone)]
struct Open {
    token: Secret,
    until: Instant,
    neutron: Service,
    project: String,
}

impl Session {
    /// Prepares a session; asks nothing yet. `ca`: the certificates to trust; None: those of the system.
    ///
    /// # Errors
    /// What a person must correct, without a secret.
    pub(super) fn new(cloud: Cloud, ca: Option<Vec<Vec<u8>>>) -> Result<Self, String> {
        let keystone = Service::new("Keystone", &cloud.keystone, ca.as_deref())?;
        Ok(Self { cloud, ca, keystone, open: Mutex::new(None) })
    }

    /// The project, in which all is done.
    pub(super) async fn project(&self) -> Result<String, Fault> {
        Ok(self.open(None).await?.project)
    }

    /// Asks Neutron. If the token is refused, another one is made, once.
    pub(super) async fn neutron(&self, request: &Request) -> Result<Bytes, Fault> {
        let open = self.open(None).await?;
        match open.ask(request).await {
            Err(Fault::Token(_)) => {}
            other => return other,
        }
        let again = self.open(Some(&open.token)).await?;
        match again.ask(request).await {
            Err(Fault::Token(text)) => Err(Fault::Refused(format!("Neutron does not accept Keystone's token: {text}"))),
            other => other,
        }
    }

    /// A token that is good for a while. `refused`: not this one.
    async fn open(&self, refused: Option<&Secret>) -> Result<Open, Fault> {
        let mut open = self.open.lock().await;
        if let Some(open) = &*open
            && refused != Some(&open.token)
            && Instant::now() < open.until
        {
            return Ok(open.clone());
        }
        *open = None;
        let new = self.log_in().await?;
        *open = Some(new.clone());
        Ok(new)
    }

    async fn log_in(&self) -> Result<Open, Fault> {
        let asked = Instant::now();
        let body = identity::request(&self.cloud.login);
        let ask = Ask { method: "POST", path: identity::PATH, body: Some(&body), revision: None, token: None };
        let reply = self.keystone.ask(ask).await.map_err(|fault| match fault {
            // A login changes nothing: whatever became of it, no address was asked for.
            Fault::Token(text) => Fault::Refused(format!("Keystone refuses the credentials: {text}")),
            Fault::Unknown(text) => Fault::Busy(text),
            other => Fault::Refused(format!("Keystone: {other}")),
        })?;
        let refused = |error: String| Fault::Refused(error);
        let token = reply.headers.get(identity::TOKEN).and_then(|token| token.to_str().ok());
        let token = Secret::new(token.ok_or_else(|| refused("Keystone's answer has no token".to_owned()))?);
        let granted = identity::granted(&reply.body, &self.cloud).map_err(|error| refused(error.to_string()))?;
        let lasts = Duration::from_secs(granted.seconds).min(LONGEST);
        Ok(Open {
            token,
            // A short token is used for half of its time.
            until: asked + lasts.saturating_sub(MARGIN).max(lasts / 2),
            neutron: Service::new("Neutron", &granted.neutron, self.ca.as_deref()).map_err(refused)?,
            project: granted.project,
        })
    }
}

impl Open {
    async fn ask(&self, request: &Request) -> Result<Bytes, Fault> {
        let Request { method, path, body, revision } = request;
        let ask = Ask { method, path, body: body.as_ref(), revision: *revision, token: Some(&self.token) };
        Ok(self.neutron.ask(ask).await?.body)
    }
}
