use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mooring_allocator_core::names::Key;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::credentials::Secret;
use super::*;

const POOL: &str = "0f0e0d0c-0b0a-0908-0706-050403020100";
const CLAIM: &str = "11112222-3333-4444-5555-666677778888";
/// The address of all routers of the subnet.
const FIRST: &str = "fd00::";

type Answer = Arc<dyn Fn(String, HeaderMap) -> BoxFuture<'static, Value> + Send + Sync>;

/// A server that answers with what a test says: the data of phpIPAM's envelope, or null for 404.
struct Served {
    url: String,
    /// What was asked: method and path.
    asked: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

async fn served(answer: Answer) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (mut tasks, noted) = (JoinSet::new(), asked.clone());
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((tcp, _)) = listener.accept().await {
            let (answer, noted) = (answer.clone(), noted.clone());
            connections.spawn(async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let what = format!("{} {}", request.method(), request.uri().path());
                    noted.lock().unwrap().push(what.clone());
                    let answer = answer(what, request.headers().clone());
                    async move {
                        let data = answer.await;
                        let code = if data.is_null() { 404 } else { 200 };
                        let body = json!({"code": code, "success": code == 200, "message": "none", "data": data});
                        let body = Full::new(Bytes::from(body.to_string()));
                        Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
                    }
                });
                // Clients hang up.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(tcp), service).await;
            });
        }
    });
    Served { url, asked, _tasks: tasks }
}

impl Served {
    fn asked(&self, method: &Method) -> Vec<String> {
        let all = self.asked.lock().unwrap();
        all.iter().filter(|what| what.starts_with(method.as_str())).cloned().collect()
    }
}

fn spec(url: &str, app: &str, user: &str) -> PhpIpamIpPoolSpec {
    let inline = json!({"username": user, "password": "p", "app_id": app, "endpoint": url});
    serde_json::from_value(json!({"credentials": inline, "subnets": [1]})).unwrap()
}

/// A pool with an app's code, which needs no log-in.
fn pool(served: &Served) -> PhpIpam {
    PhpIpam::new(spec(&served.url, "kube", ""), &Uid::from(POOL))
}

fn api(of: &PhpIpam) -> Api<'_> {
    Api { of, session: of.open(&Secret::default()).unwrap().into() }
}

#[tokio::test]
async fn a_late_token_of_an_earlier_credential_is_not_used_with_the_new_one() {
    let (go_on, goes_on) = watch::channel(false);
    let served = served(Arc::new(move |what, headers| {
        let mut goes_on = goes_on.clone();
        Box::pin(async move {
            let of = |name: &str| headers.get(name).map(|one| one.to_str().unwrap().to_owned()).unwrap_or_default();
            if what != "POST /kube/user/" {
                return json!(of("token"));
            }
            // "old:p", in base 64.
            let old = of("authorization").ends_with("b2xkOnA=");
            if old {
                goes_on.wait_for(|goes_on| *goes_on).await.unwrap();
            }
            json!({"token": if old { "old" } else { "new" }})
        })
    }))
    .await;
    let pool = pool(&served);
    let session = |user: &str| {
        let of = PhpIpam::new(spec(&served.url, "kube", user), &pool.pool);
        of.open(&Secret::default()).unwrap()
    };
    let (old, new) = (session("old"), session("new"));
    let token = async |session| {
        let reply = pool.request(session, Method::GET, "x/", None).await.unwrap().unwrap();
        reply.data.value().as_str().unwrap().to_owned()
    };
    let log_ins = async |count| {
        while served.asked(&Method::POST).len() < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let by_new = async {
        log_ins(1).await;
        token(&new).await
    };
    let late = async {
        // The new one logs in by itself, and does not wait for the old one.
        let by_itself = tokio::time::timeout(Duration::from_secs(5), log_ins(2)).await.is_ok();
        go_on.send_replace(true);
        by_itself
    };
    let (by_old, by_new, by_itself) = tokio::join!(token(&old), by_new, late);
    assert_eq!((&*by_old, &*by_new, by_itself), ("old", "new", true));
    assert_eq!(token(&new).await, "new");
}

#[tokio::test]
async fn nothing_is_sent_where_the_app_leads_elsewhere() {
    let served = served(Arc::new(|_, _| Box::pin(async { json!({}) }))).await;
    for app in ["../admin", "kube/../x", "kube?x=", "kube#"] {
        let of = PhpIpam::new(spec(&served.url, app, ""), &Uid::from(POOL));
        assert_eq!(of.open(&Secret::default()).unwrap_err(), mooring_api::pool::NO_APP_ID, "{app}");
    }
}

/// What a search for a claim finds, with the requests that change something; `listed`: what bears the claim's mark in a list, or is at
/// its address; `read`: what stands under its number by now.
async fn search(address: Option<&str>, listed: Value, read: Value) -> (Vec<Entry>, Vec<String>) {
    let (list, read) = (json!([listed]), Arc::new(read));
    let served = served(Arc::new(move |what, _| {
        let (list, read) = (list.clone(), read.clone());
        Box::pin(async move {
            match &*what {
                "GET /kube/subnets/1/" => json!({"id": 1, "subnet": FIRST, "mask": 64}),
                "GET /kube/addresses/11/" => (*read).clone(),
                _ if what.starts_with("GET /kube/subnets/1/addresses/") => list,
                _ => json!({}),
            }
        })
    }))
    .await;
    let pool = pool(&served);
    let address = address.map(|address| address.parse().unwrap());
    let mark = Mark { claim: Uid::from(CLAIM), name: Key::new("ns", "c"), address };
    let found = api(&pool).find(&mark).await.unwrap();
    (found, served.asked(&Method::PATCH))
}

#[tokio::test]
async fn only_what_is_the_claims_by_its_mark_is_given_to_the_routers() {
    let ours = json!({"id": 11, "subnetId": 1, "ip": FIRST, "hostname": "c.ns",
        "description": description(&Uid::from(CLAIM)), "owner": owner(&Uid::from(POOL))});
    let theirs =
        json!({"id": 11, "subnetId": 1, "ip": FIRST, "hostname": "router", "description": "uplink", "owner": ""});
    // Left by a request whose answer was lost.
    let (found, changed) = search(None, ours.clone(), ours.clone()).await;
    assert_eq!((found.len(), changed), (0, vec!["PATCH /kube/addresses/11/".to_owned()]));
    // People have used it for something else, or have deleted it, since it was listed.
    for now in [theirs.clone(), Value::Null] {
        let (found, changed) = search(None, ours.clone(), now).await;
        assert_eq!((found.len(), changed.len()), (0, 0));
    }
    // Somebody else's, at the claim's address; and the claim's own, to which it is bound.
    for one in [theirs, ours] {
        let (found, changed) = search(Some(FIRST), one.clone(), one).await;
        assert_eq!((found.len(), changed.len()), (1, 0), "{found:?}");
    }
}
