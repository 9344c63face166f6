//! The pages that programs serve to their own host: health and metrics.

use std::time::Duration;

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;

use crate::cluster::client;
use crate::host::Netns;

/// Longest time for one answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Asks the program at a port of the host's loopback for a page; returns the status code and the text.
///
/// # Errors
/// It does not answer.
pub async fn page(netns: &Netns, port: u16, path: &str) -> Result<(u16, String)> {
    let uri: http::Uri = format!("http://127.0.0.1:{port}{path}").parse()?;
    let asked = async {
        let stream = client::connect(netns, &uri).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // When the connection fails, the request fails too.
        tokio::spawn(connection);
        let request = http::Request::get(path).header("host", "127.0.0.1").body(Empty::<bytes::Bytes>::new())?;
        let answer = sender.send_request(request).await?;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await?.to_bytes();
        anyhow::Ok((code, String::from_utf8_lossy(&body).into_owned()))
    };
    tokio::time::timeout(ANSWER, asked).await.with_context(|| format!("{uri} does not answer"))?
}
