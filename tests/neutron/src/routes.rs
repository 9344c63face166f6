//! Requests and answers.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::state::{FloatingIp, Refused, State};
use crate::{ADMIN, CREDENTIAL, NETWORK, PROJECT, USER};

/// A request.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) token: &'a str,
    /// The number in `If-Match: revision_number=N`.
    pub(crate) revision: Option<u64>,
    pub(crate) body: Value,
}

/// An answer: status, body, a token.
pub(crate) type Answer = (u16, Value, Option<String>);

impl State {
    pub(crate) fn answer(&mut self, asked: &Asked<'_>) -> Answer {
        if asked.path == "/v3/auth/tokens" && asked.method == "POST" {
            return self.log_in(&asked.body);
        }
        let Some(project) = self.tokens.get(asked.token).cloned() else {
            let error = json!({"error": {
                "code": 401, "title": "Unauthorized", "message": "The request you have made requires authentication.",
            }});
            return (401, error, None);
        };
        match self.neutron(asked, &project) {
            Ok((status, body)) => (status, body, None),
            Err((status, kind, message)) => {
                (status, json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}), None)
            }
        }
    }

    fn log_in(&mut self, body: &Value) -> Answer {
        let identity = &body["auth"]["identity"];
        let user = &identity["password"]["user"];
        let is = |(name, password): (&str, &str)| user["name"] == name && user["password"] == password;
        let credential = &identity["application_credential"];
        let by_credential = credential["id"] == CREDENTIAL.0 && credential["secret"] == CREDENTIAL.1;
        let admin = is(ADMIN);
        if self.locked_out || !(admin || is(USER) || by_credential) {
            let message = "The request you have made requires authentication.";
            return (401, json!({"error": {"code": 401, "title": "Unauthorized", "message": message}}), None);
        }
        let token = format!("token-{}", self.number());
        self.tokens.insert(token.clone(), if admin { String::new() } else { PROJECT.to_owned() });
        let endpoint =
            json!({"interface": "public", "region": "RegionOne", "region_id": "RegionOne", "url": self.neutron});
        let seconds = self.token_seconds.min(86_399);
        let until = format!("2026-01-01T{:02}:{:02}:{:02}.000000Z", seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let body = json!({"token": {
            "methods": ["password"], "issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": until,
            "project": {"id": PROJECT, "name": USER.0},
            "catalog": [{"type": "network", "name": "neutron", "endpoints": [endpoint]}],
        }});
        (201, body, Some(token))
    }

    fn neutron(&mut self, asked: &Asked<'_>, project: &str) -> Result<(u16, Value), Refused> {
        let path: Vec<&str> = asked.path.trim_start_matches("/v2.0/").split('/').collect();
        match (asked.method, &*path) {
            ("GET", ["networks"]) => Ok((200, networks(asked))),
            ("GET", ["floatingips"]) => Ok((200, self.list(asked, project))),
            ("POST", ["floatingips"]) => self.make(asked, project),
            ("GET", ["floatingips", id]) => Ok((200, json!({"floatingip": self.known(id, project)?.json()}))),
            ("PUT", ["floatingips", id]) => {
                self.expects(id, project, asked.revision)?;
                let text = asked.body["floatingip"]["description"].as_str().map(str::to_owned);
                let changed = self.change(id, |one| one.description = text.unwrap_or_default());
                Ok((200, json!({"floatingip": changed.map(|one| one.json())})))
            }
            ("DELETE", ["floatingips", id]) => {
                self.expects(id, project, asked.revision)?;
                self.delete(id);
                Ok((204, Value::Null))
            }
            ("POST", ["floatingips", id, "tags"]) => {
                self.known(id, project)?;
                let new: Vec<String> = asked.body["tags"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|tag| Some(tag.as_str()?.into()))
                    .collect();
                let changed = self.change(id, |one| one.tags.extend(new));
                Ok((200, json!({"tags": changed.map(|one| one.tags)})))
            }
            _ => Err((404, "HTTPNotFound", "The resource could not be found.".into())),
        }
    }

    /// What others have is as if it were not there.
    fn known(&self, id: &str, project: &str) -> Result<&FloatingIp, Refused> {
        let found = self.get(id).filter(|one| project.is_empty() || one.project == project);
        found.ok_or_else(|| (404, "FloatingIPNotFound", format!("Floating IP {id} could not be found")))
    }

    fn expects(&self, id: &str, project: &str, revision: Option<u64>) -> Result<(), Refused> {
        let known = self.known(id, project)?;
        if revision.is_some_and(|wanted| wanted != known.revision) {
            let text = format!("Constrained to {revision:?}, but current revision is {}", known.revision);
            return Err((412, "RevisionNumberConstraintFailed", text));
        }
        Ok(())
    }

    fn make(&mut self, asked: &Asked<'_>, project: &str) -> Result<(u16, Value), Refused> {
        let wanted = &asked.body["floatingip"];
        if wanted["floating_network_id"] != NETWORK {
            return Err((404, "NetworkNotFound", "Network could not be found.".into()));
        }
        if wanted.get("tags").is_some() {
            return Err((400, "HTTPBadRequest", "Attribute 'tags' not allowed in POST".into()));
        }
        let address = wanted["floating_ip_address"].as_str().and_then(|text| text.parse::<Ipv4Addr>().ok());
        if address.is_some() && !project.is_empty() {
            let text =
                "(rule:create_floatingip and rule:create_floatingip:floating_ip_address) is disallowed by policy";
            return Err((403, "PolicyNotAuthorized", text.into()));
        }
        let of = wanted["project_id"].as_str().unwrap_or(project).to_owned();
        let made = self.create(&of, wanted["description"].as_str().unwrap_or_default(), address)?;
        Ok((201, json!({"floatingip": made.json()})))
    }

    fn list(&self, asked: &Asked<'_>, project: &str) -> Value {
        let wanted =
            |name: &str| asked.query.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect();
        let (addresses, descriptions): (Vec<String>, Vec<String>) =
            (wanted("floating_ip_address"), wanted("description"));
        let (projects, networks): (Vec<String>, Vec<String>) = (wanted("project_id"), wanted("floating_network_id"));
        let fits = |all: &[String], text: &str| all.is_empty() || all.iter().any(|one| one == text);
        let found = self.all(project).into_iter().filter(|one| {
            fits(&addresses, &one.address.to_string())
                && fits(&descriptions, &one.description)
                && fits(&projects, &one.project)
                && fits(&networks, NETWORK)
        });
        let (limit, marker): (Vec<String>, Vec<String>) = (wanted("limit"), wanted("marker"));
        let limit = limit.first().and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
        let mut rest: Vec<FloatingIp> =
            found.filter(|one| marker.first().is_none_or(|after| one.id > *after)).collect();
        let more = rest.len() > limit;
        rest.truncate(limit);
        let items: Vec<Value> = rest.iter().map(FloatingIp::json).collect();
        let links = if more { json!([{"rel": "next", "href": "http://elsewhere/"}]) } else { json!([]) };
        json!({"floatingips": items, "floatingips_links": links})
    }
}

fn networks(asked: &Asked<'_>) -> Value {
    let differs = |key: &str, value: &str| asked.query.iter().any(|(name, wanted)| name == key && wanted != value);
    if differs("id", NETWORK) || differs("name", "public") {
        return json!({"networks": []});
    }
    json!({"networks": [{"id": NETWORK, "name": "public", "router:external": true, "is_default": false, "tags": []}]})
}
