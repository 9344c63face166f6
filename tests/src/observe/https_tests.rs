//! The HTTPS prober against a real TLS server that wants a client certificate, as kube-apiserver does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::https::{Attempt, Https, Target, outages};
use super::netlink::add_address;
use super::testing::{Segment, Space};
use super::{Place, inside, now};

const LIMIT: Duration = Duration::from_secs(10);

struct Pki {
    ca: String,
    server: (String, String),
    client: (String, String),
}

fn pki() -> Pki {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let leaf = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    Pki { ca: issuer.pem(), server: leaf("kubernetes"), client: leaf("kubernetes-admin") }
}

/// A server that ends, with its connections, when the sender is dropped.
fn serve(place: &Space, at: SocketAddr, pki: &Pki, status: u16) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pki.ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(pki.server.0.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(pki.server.1.as_bytes()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (stop, stopped) = oneshot::channel();
    let thread = place.spawn_thread(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::bind(at).await.unwrap();
            let accept = async {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let acceptor = acceptor.clone();
                    tokio::spawn(async move {
                        let mut stream = acceptor.accept(stream).await?;
                        let mut buffer = [0; 1_024];
                        while stream.read(&mut buffer).await? > 0 {
                            let answer = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: 2\r\n\r\nok");
                            stream.write_all(answer.as_bytes()).await?;
                        }
                        std::io::Result::Ok(())
                    });
                }
            };
            tokio::select! {
                () = accept => {}
                _ = stopped => {}
            }
        });
    });
    (stop, thread)
}

#[test]
fn an_outage_of_the_api_is_seen_on_new_and_on_kept_connections() {
    let segment = Segment::new(2);
    let (server, client) = (&segment.hosts[0], &segment.hosts[1]);
    let vip: SocketAddr = "192.0.2.100:6443".parse().unwrap();
    inside(server, move || add_address("eth0", vip.ip())).unwrap();
    let pki = pki();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for keep in [false, true] {
        let target = Target {
            address: vip,
            name: "kubernetes".into(),
            path: "/readyz".into(),
            ca: pki.ca.clone().into_bytes(),
            client: Some((pki.client.0.clone().into_bytes(), pki.client.1.clone().into_bytes())),
            keep,
        };
        let (stop, thread) = serve(server, vip, &pki, 200);
        let prober = Https::start(client, target.clone()).unwrap();
        runtime.block_on(prober.success_after(now(), LIMIT)).unwrap();
        drop(stop);
        thread.join().unwrap();
        let down = now();
        assert!(runtime.block_on(prober.success_after(down, Duration::from_millis(300))).is_err());
        let (stop, thread) = serve(server, vip, &pki, 200);
        let up = now();
        runtime.block_on(prober.success_after(down, LIMIT)).unwrap();
        let record = prober.finish().unwrap();
        let found = outages(&record);
        let outage = found.iter().find(|o| o.from <= down && o.to >= up).unwrap_or_else(|| panic!("{record:?}"));
        assert!(outage.length() >= Duration::from_millis(300));
        println!("keep {keep}: {:?}, {} failed: {:?}", outage.length(), outage.failed.len(), outage.failed[0].result);

        // The server refuses a client without a certificate, and a wrong name is no success.
        for wrong in [Target { client: None, ..target.clone() }, Target { name: "other".into(), ..target.clone() }] {
            let prober = Https::start(client, wrong).unwrap();
            assert!(runtime.block_on(prober.success_after(now(), Duration::from_millis(300))).is_err());
            let record = prober.finish().unwrap();
            assert!(record.iter().all(|a: &Attempt| a.result.is_err()) && !record.is_empty(), "{record:?}");
        }
        drop(stop);
        thread.join().unwrap();

        // An answer that is not 2xx is no success either.
        let (stop, thread) = serve(server, vip, &pki, 503);
        let prober = Https::start(client, target).unwrap();
        assert!(runtime.block_on(prober.success_after(now(), Duration::from_millis(300))).is_err());
        assert!(prober.finish().unwrap().iter().any(|a| a.result == Ok(503)));
        drop(stop);
        thread.join().unwrap();
    }
}
