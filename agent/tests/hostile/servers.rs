//! The two sockets that others may speak to: whatever they say, the next one is answered.

use std::net::SocketAddr;
use std::time::Duration;

use mooring_agent::ops::server::Server;
use mooring_agent::ops::status_server::StatusServer;
use mooring_agent::ops::{Ops, boottime, status_client};
use mooring_agent::settings::Listen;
use proptest::collection;
use proptest::prelude::{Strategy, any};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// For anything.
const PATIENCE: Duration = Duration::from_secs(20);

fn garbage() -> Vec<Vec<u8>> {
    let mut runner = TestRunner::default();
    let random = collection::vec(any::<u8>(), 0..2048);
    let mut all: Vec<Vec<u8>> = (0..64).map(|_| random.new_tree(&mut runner).unwrap().current()).collect();
    let long = "x".repeat(20_000);
    all.extend(
        [
            "GET / HTTP/1.1\r\n".to_owned(),
            format!("GET /{long} HTTP/1.1\r\n\r\n"),
            format!("GET / HTTP/1.1\r\nHost: {long}\r\n\r\n"),
            format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(500)),
            "POST /metrics HTTP/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n".into(),
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n".into(),
            "GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello".into(),
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(),
            "\r\n".repeat(4000),
            "GET /metrics HTTP/1.1\r\n\r\n".repeat(100),
        ]
        .map(String::into_bytes),
    );
    all
}

/// Says it and goes; the other end may well go first.
async fn throw(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) {
    drop(stream.write_all(bytes).await);
    drop(stream.shutdown().await);
    let mut answer = Vec::new();
    drop(stream.take(1 << 20).read_to_end(&mut answer).await);
    assert!(answer.len() < 1 << 20, "an answer without an end");
}

#[tokio::test]
async fn metrics_and_health_outlive_what_is_thrown_at_them() {
    let ops = Ops::new(boottime, "cp1");
    let server = Server::listen(Listen::At(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
    let address = server.address().unwrap();
    let served = tokio::spawn(async move { server.serve(&ops).await });
    for bytes in garbage() {
        let stream = TcpStream::connect(address).await.unwrap();
        tokio::time::timeout(PATIENCE, throw(stream, &bytes)).await.expect("it holds on to a connection");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut text = String::new();
        tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text)).await.expect("no answer").unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
    assert!(!served.is_finished());
}

#[tokio::test]
async fn the_status_socket_outlives_what_is_thrown_at_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("agent.sock");
    let server = StatusServer::bind(&path).unwrap();
    let served = tokio::spawn(server.serve(Ops::new(boottime, "cp1")));
    for bytes in garbage() {
        let stream = UnixStream::connect(&path).await.unwrap();
        tokio::time::timeout(PATIENCE, throw(stream, &bytes)).await.expect("it holds on to a connection");
    }
    let status = tokio::task::spawn_blocking(move || status_client::read(&path)).await.unwrap().unwrap();
    assert_eq!(status.node, "cp1");
    assert!(!served.is_finished());
}
