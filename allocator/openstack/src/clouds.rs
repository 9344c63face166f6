//! `clouds.yaml`, as Cluster API's provider for OpenStack reads it from a Secret.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::secret::Secret;

/// A cloud, and who asks it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// Keystone's URL, without `/v3` and without a slash at its end.
    pub keystone: String,
    /// Who asks.
    pub login: Login,
    /// The region; None: the only one that the catalog has.
    pub region: Option<String>,
    /// Which of a service's URLs are used.
    pub interface: Interface,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// A user with a password, for a project.
    Password {
        /// The user.
        user: Named,
        /// The password.
        password: Secret,
        /// The project.
        project: Named,
    },
    /// An application credential with its number: it knows its user and project.
    Credential {
        /// The credential's id.
        id: String,
        /// Its secret.
        secret: Secret,
    },
    /// An application credential with its name, of a user.
    NamedCredential {
        /// The credential's name.
        name: String,
        /// Its secret.
        secret: Secret,
        /// Its user.
        user: Named,
    },
}

/// A user or a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// By its number.
    Id(String),
    /// By its name, in a domain.
    Name(String, Domain),
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By its number.
    Id(String),
    /// By its name.
    Name(String),
}

/// Which of a service's URLs are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// For everybody.
    #[default]
    Public,
    /// Inside the cloud.
    Internal,
    /// For administrators.
    Admin,
}

impl Interface {
    /// As the catalog writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Internal => "internal",
            Self::Admin => "admin",
        }
    }
}

/// A `clouds.yaml` that cannot be used. No value of the file is in the text, only names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloudsError {
    /// The file is not of that form.
    #[error("clouds.yaml cannot be read (line {0}): it must have `clouds`, and in it each cloud by its name")]
    Unreadable(u64),
    /// No such cloud.
    #[error("clouds.yaml has no cloud {0:?}: it has {1}")]
    NoCloud(String, String),
    /// A field is missing.
    #[error("the cloud {cloud:?} in clouds.yaml lacks {field}")]
    Missing {
        /// The cloud.
        cloud: String,
        /// The field or fields.
        field: &'static str,
    },
    /// A field has a value that is not supported.
    #[error("the cloud {cloud:?} in clouds.yaml: {what}")]
    Unsupported {
        /// The cloud.
        cloud: String,
        /// What is not supported, and what to do.
        what: &'static str,
    },
}

#[derive(Deserialize)]
struct File {
    clouds: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: AuthFields,
    auth_type: Option<String>,
    region_name: Option<String>,
    regions: Vec<serde_json::Value>,
    interface: Option<String>,
    endpoint_type: Option<String>,
    verify: Option<bool>,
    profile: Option<String>,
    identity_api_version: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AuthFields {
    auth_url: Option<String>,
    token: Option<Secret>,
    username: Option<String>,
    user_id: Option<String>,
    password: Option<Secret>,
    application_credential_id: Option<String>,
    application_credential_name: Option<String>,
    application_credential_secret: Option<Secret>,
    project_name: Option<String>,
    project_id: Option<String>,
    tenant_name: Option<String>,
    tenant_id: Option<String>,
    user_domain_name: Option<String>,
    user_domain_id: Option<String>,
    project_domain_name: Option<String>,
    project_domain_id: Option<String>,
    domain_name: Option<String>,
    domain_id: Option<String>,
    default_domain: Option<String>,
}

/// Reads one cloud of a `clouds.yaml`. `region`: the pool's own, before the file's.
///
/// # Errors
/// The file, the cloud or a field is missing or cannot be used.
pub fn read(text: &str, cloud: &str, region: Option<&str>) -> Result<Cloud, CloudsError> {
    let file: File = serde_saphyr::from_str(text).map_err(|error| {
        // Its text quotes the file, which has passwords.
        CloudsError::Unreadable(error.location().map_or(0, |at| at.line()))
    })?;
    let Some(entry) = file.clouds.get(cloud) else {
        let names: Vec<&str> = file.clouds.keys().map(String::as_str).collect();
        let has = if names.is_empty() { "none".to_owned() } else { crate::one_line(&names.join(", ")) };
        return Err(CloudsError::NoCloud(cloud.to_owned(), has));
    };
    let unsupported = |what| Err(CloudsError::Unsupported { cloud: cloud.to_owned(), what });
    let missing = |field| CloudsError::Missing { cloud: cloud.to_owned(), field };
    if entry.profile.is_some() {
        return unsupported("`profile` is not supported: write its fields into the cloud itself");
    }
    if entry.verify == Some(false) {
        return unsupported("`verify: false` is not supported: put the CA's certificate into the Secret, as `cacert`");
    }
    if entry.identity_api_version.as_ref().is_some_and(|version| !is_three(version)) {
        return unsupported("`identity_api_version` must be 3");
    }
    let interface = match entry.interface.as_deref().or(entry.endpoint_type.as_deref()) {
        None | Some("" | "public" | "publicURL") => Interface::Public,
        Some("internal" | "internalURL") => Interface::Internal,
        Some("admin" | "adminURL") => Interface::Admin,
        Some(_) => return unsupported("`interface` must be public, internal or admin"),
    };
    let url = filled(entry.auth.auth_url.as_deref()).ok_or_else(|| missing("auth.auth_url"))?;
    if !(url.starts_with("http://") || url.starts_with("https://")) {
        return unsupported("`auth.auth_url` must begin with https:// (or http://)");
    }
    let only = entry.regions.first().filter(|_| entry.regions.len() == 1).and_then(|one| match one {
        serde_json::Value::String(name) => Some(name.as_str()),
        other => other["name"].as_str(),
    });
    let region = filled(region).or_else(|| filled(entry.region_name.as_deref())).or_else(|| filled(only));
    Ok(Cloud {
        keystone: url.trim_end_matches('/').trim_end_matches("/v3").trim_end_matches('/').to_owned(),
        login: entry.auth.login(cloud, entry.auth_type.as_deref())?,
        region: region.map(str::to_owned),
        interface,
    })
}

fn is_three(version: &serde_json::Value) -> bool {
    let text = version.as_str().map_or_else(|| version.to_string(), str::to_owned);
    matches!(text.trim_start_matches('v'), "3" | "3.0")
}

fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

impl AuthFields {
    fn login(&self, cloud: &str, kind: Option<&str>) -> Result<Login, CloudsError> {
        let missing = |field| CloudsError::Missing { cloud: cloud.to_owned(), field };
        let unsupported = |what| CloudsError::Unsupported { cloud: cloud.to_owned(), what };
        let by_credential = match filled(kind) {
            None => self.application_credential_secret.is_some(),
            Some("password" | "v3password") => false,
            Some("v3applicationcredential" | "applicationcredential") => true,
            Some(_) => return Err(unsupported("`auth_type` must be password or v3applicationcredential")),
        };
        if self.token.is_some() {
            return Err(unsupported("`auth.token` is not supported, because it ends: use an application credential"));
        }
        if by_credential {
            let secret = self.application_credential_secret.clone();
            let secret = secret.ok_or_else(|| missing("auth.application_credential_secret"))?;
            if let Some(id) = filled(self.application_credential_id.as_deref()) {
                return Ok(Login::Credential { id: id.to_owned(), secret });
            }
            let name = filled(self.application_credential_name.as_deref());
            let name = name.ok_or_else(|| missing("auth.application_credential_id"))?.to_owned();
            let user = self.user().ok_or_else(|| missing("auth.username with its domain, or auth.user_id"))?;
            return Ok(Login::NamedCredential { name, secret, user });
        }
        let password = self.password.clone().ok_or_else(|| missing("auth.password"))?;
        let user = self.user().ok_or_else(|| missing("auth.username with its domain, or auth.user_id"))?;
        let project = self.project().ok_or_else(|| missing("auth.project_name with its domain, or auth.project_id"))?;
        Ok(Login::Password { user, password, project })
    }

    fn user(&self) -> Option<Named> {
        let domain = self.domain(self.user_domain_id.as_deref(), self.user_domain_name.as_deref());
        named(self.user_id.as_deref(), self.username.as_deref(), domain)
    }

    fn project(&self) -> Option<Named> {
        let domain = self.domain(self.project_domain_id.as_deref(), self.project_domain_name.as_deref());
        let id = filled(self.project_id.as_deref()).or(self.tenant_id.as_deref());
        let name = filled(self.project_name.as_deref()).or(self.tenant_name.as_deref());
        named(id, name, domain)
    }

    fn domain(&self, id: Option<&str>, name: Option<&str>) -> Option<Domain> {
        let by_id = |id: Option<&str>| filled(id).map(|id| Domain::Id(id.to_owned()));
        let by_name = |name: Option<&str>| filled(name).map(|name| Domain::Name(name.to_owned()));
        by_id(id)
            .or_else(|| by_name(name))
            .or_else(|| by_id(self.domain_id.as_deref()))
            .or_else(|| by_name(self.domain_name.as_deref()))
            .or_else(|| by_id(self.default_domain.as_deref()))
    }
}

fn named(id: Option<&str>, name: Option<&str>, domain: Option<Domain>) -> Option<Named> {
    if let Some(id) = filled(id) {
        return Some(Named::Id(id.to_owned()));
    }
    Some(Named::Name(filled(name)?.to_owned(), domain?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
clouds:
  one:
    auth:
      auth_url: https://keystone.example:5000/v3/
      username: k8s
      password: hunter2
      project_name: k8s
      domain_name: Default
    region_name: RegionOne
    interface: internal
    identity_api_version: 3
    volume_api_version: 3
  two:
    auth_type: v3applicationcredential
    auth: {auth_url: 'http://keystone', application_credential_id: abc, application_credential_secret: hunter2}
    regions: [RegionTwo]
  open: {auth: {auth_url: https://k}, verify: false}
  bare: {auth: {auth_url: https://k, username: u, password: hunter2}}
";

    #[test]
    fn both_kinds_of_logins_are_read() {
        let one = read(FILE, "one", None).unwrap();
        let domain = Domain::Name("Default".into());
        assert_eq!(one.keystone, "https://keystone.example:5000");
        assert_eq!((one.region.as_deref(), one.interface), (Some("RegionOne"), Interface::Internal));
        let named = Named::Name("k8s".into(), domain);
        let login = Login::Password { user: named.clone(), password: Secret::new("hunter2"), project: named };
        assert_eq!(one.login, login);
        let two = read(FILE, "two", None).unwrap();
        assert_eq!(two.login, Login::Credential { id: "abc".into(), secret: Secret::new("hunter2") });
        assert_eq!((two.region.as_deref(), two.interface), (Some("RegionTwo"), Interface::Public));
        assert_eq!(read(FILE, "one", Some("Own")).unwrap().region.as_deref(), Some("Own"));
    }

    #[test]
    fn what_cannot_be_used_is_said_by_name() {
        for (cloud, says) in [("none", "no cloud"), ("open", "cacert"), ("bare", "auth.username with its domain")] {
            let error = read(FILE, cloud, None).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let broken = "clouds:\n  one:\n    auth: {password: hunter2, password: [hunter2}\n";
        let error = read(broken, "one", None).unwrap_err();
        let shown = [format!("{error} {error:?}"), format!("{:?}", read(FILE, "one", None))];
        assert!(shown.iter().all(|text| !text.contains("hunter2")), "{shown:?}");
    }
}
