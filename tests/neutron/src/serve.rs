//! HTTP.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;

use crate::Cloud;
use crate::fault::Fault;
use crate::routes::{Answer, Asked};

/// Serves Keystone and Neutron on one listener, until the task ends. Both may have one of their own.
pub async fn serve(cloud: Cloud, listener: TcpListener) -> Infallible {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = listener.accept().await else { continue };
        let cloud = cloud.clone();
        cloud.state().connections += 1;
        connections.spawn(async move {
            let service = service_fn(|request| answer(cloud.clone(), request));
            // A broken connection is the client's to notice.
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            cloud.state().connections -= 1;
        });
    }
}

/// An error breaks the connection.
async fn answer(cloud: Cloud, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
    let broken = || io::Error::other("the connection breaks");
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let header = |name: &str| text(&head.headers, name);
    let revision = header("if-match");
    let asked = Asked {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: query(head.uri.query().unwrap_or_default()),
        token: header("x-auth-token"),
        revision: revision.strip_prefix("revision_number=").and_then(|number| number.parse().ok()),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    if asked.method != "GET" && asked.path.starts_with("/v2.0/floatingips") {
        cloud.work().await;
    }
    let (fault, answer) = {
        let mut state = cloud.state();
        state.asked.push((asked.method.to_owned(), asked.path.to_owned()));
        let fault = state.fault(asked.method, asked.path);
        let does = matches!(fault, None | Some(Fault::Lost | Fault::Half));
        (fault, does.then(|| state.answer(&asked)))
    };
    cloud.asked.notify_waiters();
    match (fault, answer) {
        (None, Some(answer)) => reply(&answer, false),
        (Some(Fault::Half), Some(answer)) => reply(&answer, true),
        (Some(Fault::Status(status)), _) => {
            Response::builder().status(status).body(Full::default()).map_err(io::Error::other)
        }
        (Some(Fault::Hang), _) => std::future::pending().await,
        _ => Err(broken()),
    }
}

fn reply((status, body, token): &Answer, half: bool) -> io::Result<Response<Full<Bytes>>> {
    let mut response = Response::builder().status(*status).header("content-type", "application/json");
    if let Some(token) = token {
        response = response.header("x-subject-token", token);
    }
    let mut text = if *body == Value::Null { String::new() } else { body.to_string() };
    if half {
        text.truncate(text.len() / 2);
    }
    response.body(Full::new(text.into())).map_err(io::Error::other)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn query(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), decoded(value)))
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
