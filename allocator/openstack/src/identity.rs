//! Keystone's tokens: the request for one, and what it says.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::clouds::{Cloud, Domain, Login, Named};

/// The path of the request, behind Keystone's URL.
pub const PATH: &str = "/v3/auth/tokens";
/// The header of the answer that has the token.
pub const TOKEN: &str = "x-subject-token";

/// The types under which catalogs list Neutron.
const NETWORK: [&str; 1] = ["network"];

/// What Keystone says about a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// For how many seconds it is good from the moment at which it was issued: by Keystone's clock alone.
    pub seconds: u64,
    /// Neutron's URL, without `/v2.0` and without a slash at its end.
    pub neutron: String,
    /// The project's id.
    pub project: String,
}

/// An answer of Keystone's that is of no use, though it is a success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// It cannot be read.
    #[error("Keystone's answer cannot be read as a token")]
    Unreadable,
    /// The token is for no project.
    #[error("Keystone's token is for no project: name a project in clouds.yaml")]
    NoProject,
    /// The catalog has no Neutron for this region and interface.
    #[error("Keystone's catalog has no service of type network with a URL for {interface} in {region}: it has {there}")]
    NoNeutron {
        /// The interface.
        interface: &'static str,
        /// The region.
        region: String,
        /// What there is.
        there: String,
    },
    /// It has several regions, and none is chosen.
    #[error("Keystone's catalog has several regions ({0}): name one in identityRef.region or in clouds.yaml")]
    ManyRegions(String),
}

/// The body of the request for a token.
#[must_use]
pub fn request(login: &Login) -> Value {
    match login {
        Login::Password { user, password, project } => {
            let mut who = named(user);
            who["password"] = password.reveal().into();
            json!({"auth": {
                "identity": {"methods": ["password"], "password": {"user": who}},
                "scope": {"project": named(project)},
            }})
        }
        Login::Credential { id, secret } => credential(&json!({"id": id, "secret": secret.reveal()})),
        Login::NamedCredential { name, secret, user } => {
            credential(&json!({"name": name, "secret": secret.reveal(), "user": named(user)}))
        }
    }
}

fn credential(what: &Value) -> Value {
    // Its project is its own: Keystone refuses a scope beside it.
    json!({"auth": {"identity": {"methods": ["application_credential"], "application_credential": what}}})
}

fn named(one: &Named) -> Value {
    match one {
        Named::Id(id) => json!({"id": id}),
        Named::Name(name, Domain::Id(id)) => json!({"name": name, "domain": {"id": id}}),
        Named::Name(name, Domain::Name(domain)) => json!({"name": name, "domain": {"name": domain}}),
    }
}

#[derive(Deserialize)]
struct Answer {
    token: Token,
}

#[derive(Deserialize)]
struct Token {
    issued_at: String,
    expires_at: String,
    project: Option<Project>,
    #[serde(default)]
    catalog: Vec<Service>,
}

#[derive(Deserialize)]
struct Project {
    id: String,
}

#[derive(Deserialize)]
struct Service {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    endpoints: Vec<Endpoint>,
}

#[derive(Deserialize)]
struct Endpoint {
    interface: String,
    #[serde(default)]
    region: Option<String>,
    #[serde(default)]
    region_id: Option<String>,
    url: String,
}

impl Endpoint {
    /// Its region. Both fields have it; old clouds have one of them.
    fn region(&self) -> Option<&str> {
        self.region_id.as_deref().or(self.region.as_deref())
    }
}

/// Reads the answer.
///
/// # Errors
/// It cannot be read, or it has no Neutron for this cloud's region and interface.
pub fn granted(body: &[u8], cloud: &Cloud) -> Result<Granted, GrantError> {
    let Token { issued_at, expires_at, project, catalog } =
        serde_json::from_slice::<Answer>(body).map_err(|_| GrantError::Unreadable)?.token;
    let (from, to) = (moment(&issued_at), moment(&expires_at));
    let seconds = from.zip(to).map(|(from, to)| to.saturating_sub(from)).ok_or(GrantError::Unreadable)?;
    let project = project.ok_or(GrantError::NoProject)?.id;
    let all: Vec<&Endpoint> =
        catalog.iter().filter(|one| NETWORK.contains(&&*one.kind)).flat_map(|one| &one.endpoints).collect();
    let wanted = cloud.interface.name();
    let of_interface = all.iter().filter(|one| one.interface == wanted);
    let fits = |one: &&&&Endpoint| cloud.region.is_none() || one.region() == cloud.region.as_deref();
    let found: Vec<&&Endpoint> = of_interface.filter(|one| fits(&one)).collect();
    let names = |all: &[&&Endpoint]| {
        let mut names: Vec<String> =
            all.iter().map(|one| format!("{} in {}", one.interface, one.region().unwrap_or("no region"))).collect();
        names.sort();
        names.dedup();
        if names.is_empty() { "none".to_owned() } else { crate::one_line(&names.join(", ")) }
    };
    let Some(first) = found.first() else {
        let region = cloud.region.clone().map_or_else(|| "any region".to_owned(), |name| format!("region {name}"));
        let there = names(&all.iter().collect::<Vec<_>>());
        return Err(GrantError::NoNeutron { interface: wanted, region, there });
    };
    if found.iter().any(|one| one.region() != first.region()) {
        return Err(GrantError::ManyRegions(names(&found)));
    }
    let url = first.url.trim_end_matches('/').trim_end_matches("/v2.0").trim_end_matches('/');
    Ok(Granted { seconds, neutron: url.to_owned(), project })
}

/// Seconds since an epoch of `2026-11-25T09:27:06.000000Z`; only differences mean something.
fn moment(text: &str) -> Option<u64> {
    let mut numbers = text.split(['-', 'T', ':', '.', 'Z', '+']).map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days from civil, by Howard Hinnant; the year begins in March.
    let year = year - u64::from(month <= 2);
    let month = (month + 9) % 12;
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Some(days * 86_400 + hour.min(23) * 3_600 + minute.min(59) * 60 + second.min(60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clouds::Interface;
    use crate::secret::Secret;

    fn cloud(region: Option<&str>, interface: Interface) -> Cloud {
        let login = Login::Credential { id: "i".into(), secret: Secret::new("s") };
        Cloud { keystone: "http://k".into(), login, region: region.map(str::to_owned), interface }
    }

    fn body() -> Vec<u8> {
        let endpoint =
            |interface, region, url| json!({"interface": interface, "region": region, "region_id": region, "url": url});
        let catalog = json!([
            {"type": "identity", "endpoints": [endpoint("public", "a", "http://k/v3")]},
            {"type": "network", "endpoints": [
                endpoint("public", "a", "http://a:9696/"),
                endpoint("internal", "a", "http://i:9696/v2.0/"),
                endpoint("public", "b", "http://b:9696"),
            ]},
        ]);
        let (from, to) = ("2026-12-31T23:59:00.000000Z", "2027-01-01T00:59:30.000000Z");
        let token = json!({"issued_at": from, "expires_at": to, "project": {"id": "p"}, "catalog": catalog});
        json!({"token": token}).to_string().into_bytes()
    }

    #[test]
    fn the_catalog_is_read_by_region_and_interface() {
        let neutron = |region, interface| granted(&body(), &cloud(region, interface)).map(|one| one.neutron);
        assert_eq!(neutron(Some("a"), Interface::Public).as_deref(), Ok("http://a:9696"));
        assert_eq!(neutron(None, Interface::Internal).as_deref(), Ok("http://i:9696"));
        assert!(matches!(neutron(None, Interface::Public), Err(GrantError::ManyRegions(_))));
        assert!(matches!(neutron(Some("c"), Interface::Public), Err(GrantError::NoNeutron { .. })));
    }

    #[test]
    fn a_token_is_good_for_as_long_as_keystone_says() {
        let one = granted(&body(), &cloud(Some("a"), Interface::Public)).unwrap();
        assert_eq!((one.seconds, &*one.project), (3_630, "p"));
        assert_eq!(moment("nonsense"), None);
        assert_eq!(granted(b"{}", &cloud(None, Interface::Public)), Err(GrantError::Unreadable));
    }

    #[test]
    fn a_credential_asks_without_a_scope() {
        let login = Login::Credential { id: "i".into(), secret: Secret::new("s") };
        assert!(request(&login)["auth"].get("scope").is_none());
        let user = Named::Name("u".into(), Domain::Id("default".into()));
        let login = Login::Password { user: user.clone(), password: Secret::new("s"), project: user };
        let said = request(&login);
        assert_eq!(said["auth"]["scope"]["project"]["domain"]["id"], "default");
        assert_eq!(said["auth"]["identity"]["password"]["user"]["password"], "s");
    }
}
