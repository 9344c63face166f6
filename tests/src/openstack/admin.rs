//! What an administrator does and sees.

use std::net::IpAddr;

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use super::rest::{Reply, Rest};
use super::{ADMIN, KEYSTONE, NEUTRON, USER};

/// The administrator, with a project for the allocator and an external network.
#[derive(Clone, Debug)]
pub struct Admin {
    rest: Rest,
    token: String,
    /// The allocator's project.
    pub project: String,
    /// The allocator's user.
    pub user: String,
    /// The external network.
    pub network: String,
}

/// A floating IP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FloatingIp {
    /// Its id.
    pub id: String,
    /// The address.
    pub address: String,
    /// Its description.
    pub description: String,
    /// Its tags.
    pub tags: Vec<String>,
}

impl Admin {
    /// Makes a user with a project, and an external network with these addresses.
    ///
    /// # Errors
    /// Something is refused.
    pub async fn set_up(rest: Rest, cidr: &str) -> Result<Self> {
        let token = token(&rest, "admin", ADMIN, "admin").await?;
        let mut admin = Self { rest, token, project: String::new(), user: String::new(), network: String::new() };
        let project = json!({"project": {"name": USER.0, "domain_id": "default"}});
        admin.project = admin.make(&format!("{KEYSTONE}/v3/projects"), &project).await?;
        admin.user = admin.user_with_role(USER, &admin.project.clone(), "member").await?;
        admin.network = admin.external_network("public", cidr).await?;
        Ok(admin)
    }

    /// Makes an external network with these addresses; returns its id.
    ///
    /// # Errors
    /// Neutron refuses.
    pub async fn external_network(&self, name: &str, cidr: &str) -> Result<String> {
        let network = json!({"network": {"name": name, "router:external": true}});
        let id = self.make(&format!("{NEUTRON}/v2.0/networks"), &network).await?;
        let subnet = json!({"subnet": {"network_id": id, "ip_version": 4, "cidr": cidr, "enable_dhcp": false}});
        self.make(&format!("{NEUTRON}/v2.0/subnets"), &subnet).await?;
        Ok(id)
    }

    /// Makes a user with a role in a project; returns its id.
    pub(super) async fn user_with_role(
        &self,
        (name, password): (&str, &str),
        project: &str,
        role: &str,
    ) -> Result<String> {
        let user = json!({"user": {"name": name, "password": password, "domain_id": "default"}});
        let user = self.make(&format!("{KEYSTONE}/v3/users"), &user).await?;
        let roles = self.ask(Method::GET, &format!("{KEYSTONE}/v3/roles?name={role}"), &Value::Null).await?;
        let role = roles.body["roles"][0]["id"].as_str().context("no such role")?.to_owned();
        let path = format!("{KEYSTONE}/v3/projects/{project}/users/{user}/roles/{role}");
        self.must(Method::PUT, &path, &Value::Null).await?;
        Ok(user)
    }

    /// An administrator who has made nothing yet.
    pub(super) async fn bare(rest: Rest) -> Result<Self> {
        let token = token(&rest, "admin", ADMIN, "admin").await?;
        Ok(Self { rest, token, project: String::new(), user: String::new(), network: String::new() })
    }

    /// All floating IPs of the allocator's project.
    ///
    /// # Errors
    /// Neutron does not answer.
    pub async fn floating_ips(&self) -> Result<Vec<FloatingIp>> {
        let path = format!("{NEUTRON}/v2.0/floatingips?project_id={}", self.project);
        let answer = self.must(Method::GET, &path, &Value::Null).await?;
        let all = answer.body["floatingips"].as_array().context("no list")?;
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        let of = |one: &Value| FloatingIp {
            id: text(one, "id"),
            address: text(one, "floating_ip_address"),
            description: text(one, "description"),
            tags: one["tags"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
        };
        Ok(all.iter().map(of).collect())
    }

    /// Makes a floating IP for the allocator's project, as its owner would by hand; returns the address.
    ///
    /// # Errors
    /// Neutron refuses.
    pub async fn allocate(&self, description: &str) -> Result<IpAddr> {
        let one = json!({"floatingip": {
            "floating_network_id": self.network, "project_id": self.project, "description": description,
        }});
        let answer = self.must(Method::POST, &format!("{NEUTRON}/v2.0/floatingips"), &one).await?;
        Ok(answer.body["floatingip"]["floating_ip_address"].as_str().context("no address")?.parse()?)
    }

    /// Deletes a floating IP, as a person would.
    ///
    /// # Errors
    /// Neutron refuses.
    pub async fn delete(&self, id: &str) -> Result<()> {
        self.must(Method::DELETE, &format!("{NEUTRON}/v2.0/floatingips/{id}"), &Value::Null).await.map(drop)
    }

    /// How many floating IPs the allocator's project may have; None: no limit.
    ///
    /// # Errors
    /// Neutron refuses.
    pub async fn quota(&self, most: Option<u32>) -> Result<()> {
        let quota = json!({"quota": {"floatingip": most.map_or(-1, i64::from)}});
        self.must(Method::PUT, &format!("{NEUTRON}/v2.0/quotas/{}", self.project), &quota).await.map(drop)
    }

    /// An application credential of the allocator's user: id and secret.
    ///
    /// # Errors
    /// Keystone refuses.
    pub async fn application_credential(&self) -> Result<(String, String)> {
        // Only the user itself may make one.
        let token = token(&self.rest, USER.0, USER.1, USER.0).await?;
        let path = format!("{KEYSTONE}/v3/users/{}/application_credentials", self.user);
        let body = json!({"application_credential": {"name": "allocator", "roles": [{"name": "member"}]}});
        let made = self.rest.ask(Method::POST, &path, &token, &body).await?;
        let text = |key: &str| made.body["application_credential"][key].as_str().map(str::to_owned);
        text("id").zip(text("secret")).with_context(|| format!("{made:?}"))
    }

    pub(super) async fn make(&self, url: &str, body: &Value) -> Result<String> {
        let answer = self.must(Method::POST, url, body).await?;
        let made = answer.body.as_object().and_then(|all| all.values().next()).context("an empty answer")?;
        Ok(made["id"].as_str().context("no id")?.to_owned())
    }

    async fn must(&self, method: Method, url: &str, body: &Value) -> Result<Reply> {
        let answer = self.ask(method.clone(), url, body).await?;
        ensure!((200..300).contains(&answer.status), "{method} {url}: {} {}", answer.status, answer.body);
        Ok(answer)
    }

    async fn ask(&self, method: Method, url: &str, body: &Value) -> Result<Reply> {
        let reply = self.rest.ask(method.clone(), url, &self.token, body).await?;
        if reply.status != 401 {
            return Ok(reply);
        }
        // Keystone has other keys since this token was given.
        let token = token(&self.rest, "admin", ADMIN, "admin").await?;
        self.rest.ask(method, url, &token, body).await
    }
}

async fn token(rest: &Rest, user: &str, password: &str, project: &str) -> Result<String> {
    let domain = json!({"id": "default"});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": {"name": user, "password": password, "domain": domain}}},
        "scope": {"project": {"name": project, "domain": domain}},
    }});
    let answer = rest.ask(Method::POST, &format!("{KEYSTONE}/v3/auth/tokens"), "", &body).await?;
    ensure!(answer.status == 201, "{} {}", answer.status, answer.body);
    let token = answer.headers.get("x-subject-token").context("no token")?;
    Ok(token.to_str()?.to_owned())
}

/// The data of a Secret with a `clouds.yaml` for the allocator's user. `credential`: with an application credential.
#[must_use]
pub fn clouds(credential: Option<&(String, String)>) -> Value {
    let auth = match credential {
        None => json!({
            "auth_url": format!("{KEYSTONE}/v3"), "username": USER.0, "password": USER.1, "project_name": USER.0,
            "domain_id": "default",
        }),
        Some((id, secret)) => json!({
            "auth_url": KEYSTONE, "application_credential_id": id, "application_credential_secret": secret,
        }),
    };
    // JSON is YAML.
    json!({"clouds": {"openstack": {"auth": auth, "region_name": "RegionOne"}}})
}
