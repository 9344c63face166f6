//! `/metrics`, `/livez` and `/readyz` over HTTP.

use http::StatusCode;
pub use mooring_common::server::{ListenError, Server, serve};
use mooring_common::server::{Page, Pages};

use super::Ops;

impl Pages for Ops {
    fn page(&self, path: &str) -> Page {
        match path {
            "/livez" => Page::check(&self.liveness.stale().iter().map(ToString::to_string).collect::<Vec<_>>()),
            "/readyz" => Page::check(&self.readiness.waits()),
            "/metrics" => Page::metrics(self.metrics.page((self.clock)())),
            "/" => Page::text(StatusCode::OK, "mooring-agent: /metrics /livez /readyz\n"),
            _ => Page::text(StatusCode::NOT_FOUND, "there is /metrics, /livez and /readyz\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use std::net::SocketAddr;
    use std::time::Duration;

    use tokio::net::TcpStream;

    use super::*;
    use crate::core::time::Time;
    use crate::settings::Listen;

    fn start(ops: &Arc<Ops>) -> SocketAddr {
        // Port 0 is refused as a setting; here the kernel chooses.
        let server = Server::listen(Listen::At(SocketAddr::from(([127, 0, 0, 1], 0)))).unwrap();
        let address = server.address().unwrap();
        let ops = Arc::clone(ops);
        tokio::spawn(async move { server.serve(&ops).await });
        address
    }

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    #[tokio::test]
    async fn livez_fails_when_a_loop_stands_still() {
        static NOW: AtomicU64 = AtomicU64::new(0);
        let ops = Ops::new(|| Time::from_nanos(NOW.load(Ordering::Relaxed)), "cp1");
        let heart = ops.liveness.watch("core", Duration::from_secs(5));
        let address = start(&ops);
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        NOW.store(6_000_000_000, Ordering::Relaxed);
        let answer = get(address, "/livez").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.contains(r#"the loop "core" has not gone round for 6s"#),
            "{answer}"
        );
        heart.beat();
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
    }

    #[tokio::test]
    async fn readyz_says_what_is_waited_for_and_metrics_are_open_metrics() {
        let ops = Ops::new(super::super::boottime, "cp1");
        ops.readiness.set("api", Some("waits for /etc/kubernetes/admin.conf".into()));
        let address = start(&ops);
        let answer = get(address, "/readyz").await;
        assert!(
            answer.starts_with("HTTP/1.1 503") && answer.ends_with("api: waits for /etc/kubernetes/admin.conf\n"),
            "{answer}"
        );
        ops.readiness.set("api", None);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let answer = get(address, "/metrics").await;
        assert!(answer.contains("openmetrics-text") && answer.ends_with("# EOF\n"), "{answer}");
        assert!(get(address, "/other").await.starts_with("HTTP/1.1 404"));
    }

    #[tokio::test]
    async fn those_who_hold_on_keep_nobody_out() {
        let ops = Ops::new(super::super::boottime, "cp1");
        let address = start(&ops);
        let mut silent = Vec::new();
        for _ in 0..3 * mooring_common::server::CONNECTIONS {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
        assert!(get(address, "/livez").await.starts_with("HTTP/1.1 200"));
        // The server closed the first connections.
        assert_eq!(silent[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
    }

    #[tokio::test]
    async fn a_taken_address_is_named() {
        let ops = Ops::new(super::super::boottime, "cp1");
        let address = start(&ops);
        let error = Server::listen(Listen::At(address)).unwrap_err().to_string();
        assert!(error.contains(&address.to_string()) && error.contains("--metrics"), "{error}");
    }
}
