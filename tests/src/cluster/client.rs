//! A Kubernetes client whose connections start on a host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::Client;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpSocket, TcpStream};

use super::Error;
use crate::host::Netns;

/// How long a connection may take: longer than the first retransmission of a lost SYN.
const CONNECT: Duration = Duration::from_secs(3);

/// Makes the client. It does not connect yet.
pub async fn make(netns: &Netns, kubeconfig: &str, server: &str) -> Result<Client, Error> {
    let failed = |detail: String| Error::Client { server: server.to_owned(), detail };
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| failed(error.to_string()))?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed(error.to_string()))?;
    let netns = netns.clone();
    let connector = tower::service_fn(move |uri: Uri| {
        let netns = netns.clone();
        async move { connect(&netns, &uri).await.map(TokioIo::new) }
    });
    let https = config.rustls_https_connector_with_connector(connector).map_err(|error| failed(error.to_string()))?;
    let http = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(https);
    Ok(ClientBuilder::new(http, config.default_namespace.clone()).with_layer(&config.base_uri_layer()).build())
}

/// Connects from the namespace to a URI whose host is an address.
pub async fn connect(netns: &Netns, uri: &Uri) -> io::Result<TcpStream> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, format!("{uri} does not name an address"));
    let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']);
    let address: IpAddr = host.parse().map_err(|_| wrong())?;
    let address = SocketAddr::new(address, uri.port_u16().unwrap_or(443));
    // A socket belongs to the namespace in which it is made.
    let socket = netns.run(move || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        io::Result::Ok(socket)
    })?;
    let connecting = TcpSocket::from_std_stream(socket.into()).connect(address);
    tokio::time::timeout(CONNECT, connecting).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
