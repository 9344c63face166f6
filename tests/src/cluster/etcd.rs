//! The etcd members of a cluster, and their leader.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::{Cluster, ETCD, Error, client};
use crate::host::{Host, Spec};
use crate::lab::Topology;

/// How long a member may take for an answer.
const ANSWER: Duration = Duration::from_secs(5);

impl Cluster {
    pub(super) fn etcd(&self, host: &Host) -> Spec {
        let ip = host.ip4();
        let peers: Vec<_> =
            self.members.iter().map(|one| format!("{}=http://{}:2380", one.name(), one.ip4())).collect();
        let clients = format!("http://127.0.0.1:2379,http://{ip}:2379");
        Spec::new(ETCD, &self.binaries.etcd.path).args([
            format!("--name={}", host.name()),
            format!("--data-dir={}", host.dir().join("etcd-data").display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls=http://{ip}:2379"),
            format!("--listen-peer-urls=http://{ip}:2380"),
            format!("--initial-advertise-peer-urls=http://{ip}:2380"),
            format!("--initial-cluster={}", peers.join(",")),
            "--initial-cluster-state=new".into(),
            "--unsafe-no-fsync".into(),
        ])
    }

    /// The host whose etcd member leads now.
    ///
    /// # Errors
    /// No member answers, or there is no leader.
    pub async fn etcd_leader(&self) -> Result<String, Error> {
        let mut last = Error::Etcd("there is no member".into());
        for host in &self.members {
            match self.leader_seen_by(host).await {
                Ok(leader) => return Ok(leader),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Makes the member on that host the leader.
    ///
    /// # Errors
    /// There is no member on it, or etcd refuses.
    pub async fn move_etcd_leader(&self, to: &str) -> Result<(), Error> {
        let leader = self.etcd_leader().await?;
        if leader == to {
            return Ok(());
        }
        let from = self.members.iter().find(|host| host.name() == leader);
        let from = from.ok_or_else(|| Error::Etcd(format!("its leader {leader} is no host")))?;
        let members = self.member_ids(from).await?;
        let target = members.iter().find(|(_, name)| *name == to);
        let (id, _) = target.ok_or_else(|| Error::Etcd(format!("{to} has no member")))?;
        self.post(from, "maintenance/transfer-leadership", &json!({"targetID": id})).await.map(drop)
    }

    async fn leader_seen_by(&self, host: &Host) -> Result<String, Error> {
        let status = self.post(host, "maintenance/status", &json!({})).await?;
        let leader = status["leader"].as_str().filter(|id| *id != "0");
        let leader = leader.ok_or_else(|| Error::Etcd(format!("the member on {} sees no leader", host.name())))?;
        // A single member needs no list. (Without a leader, etcd refuses a list.)
        if matches!(self.topology, Topology::External(_)) {
            return Ok(host.name().to_owned());
        }
        let name = self.member_ids(host).await?.remove(leader);
        name.ok_or_else(|| Error::Etcd(format!("its leader {leader} is not a member")))
    }

    /// The names of the members by their IDs.
    async fn member_ids(&self, host: &Host) -> Result<BTreeMap<String, String>, Error> {
        // Not linearizable: the leader may be away at this time.
        let list = self.post(host, "cluster/member/list", &json!({"linearizable": false})).await?;
        let members = list["members"].as_array().cloned().unwrap_or_default();
        let pair = |member: &Value| Some((member["ID"].as_str()?.to_owned(), member["name"].as_str()?.to_owned()));
        Ok(members.iter().filter_map(pair).collect())
    }

    /// A request to a member, through its JSON gateway.
    async fn post(&self, host: &Host, method: &str, body: &Value) -> Result<Value, Error> {
        let url = format!("http://{}:2379/v3/{method}", host.ip4());
        let failed = |detail: String| Error::Etcd(format!("{url}: {detail}"));
        let asked = async {
            let uri: Uri = url.parse().map_err(|error| failed(format!("{error}")))?;
            let stream = client::connect(self.client.netns(), &uri).await.map_err(|error| failed(error.to_string()))?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|error| failed(error.to_string()))?;
            // Its failure is also the failure of the request.
            tokio::spawn(connection);
            let request = Request::post(&url)
                .header("host", uri.authority().map_or("", |authority| authority.as_str()))
                .body(Full::new(Bytes::from(body.to_string())))
                .map_err(|error| failed(error.to_string()))?;
            let response = sender.send_request(request).await.map_err(|error| failed(error.to_string()))?;
            let status = response.status();
            let body = response.into_body().collect().await.map_err(|error| failed(error.to_string()))?.to_bytes();
            if !status.is_success() {
                return Err(failed(format!("{status} {}", String::from_utf8_lossy(&body))));
            }
            serde_json::from_slice(&body).map_err(|error| failed(error.to_string()))
        };
        tokio::time::timeout(ANSWER, asked).await.map_err(|_| failed("no answer".into()))?
    }
}
