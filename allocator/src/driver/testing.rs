//! An API server for tests, without TLS, on loopback: it serves lists of given objects and watches that show what the test
//! says, notes what is asked, refuses every write, and may let the lists of one kind hang or fail.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// A request, as far as tests look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A page of a list of this kind: the plural, and the name if only one object is wanted. With the length of the answer.
    List(String, usize),
    /// A watch of this kind is open.
    Watch(String),
    /// A write: method and path.
    Write(String),
    /// The body of the write before.
    Body(String),
    /// The test's own mark.
    Mark,
}

/// The server; its tasks end when it is dropped.
pub(super) struct ApiServer {
    pub(super) url: String,
    /// What was asked, in order.
    asked: watch::Sender<Vec<Asked>>,
    /// The kind whose lists get no answer.
    hangs: watch::Sender<Option<String>>,
    /// The kind whose lists fail.
    fails: watch::Sender<Option<String>>,
    /// The lines that the watches show, each with its kind.
    says: watch::Sender<Vec<(String, Bytes)>>,
    _tasks: JoinSet<()>,
}

struct Shared {
    objects: Vec<Value>,
    asked: watch::Sender<Vec<Asked>>,
    hangs: watch::Sender<Option<String>>,
    fails: watch::Sender<Option<String>>,
    says: watch::Sender<Vec<(String, Bytes)>>,
}

/// The kind of a path: its plural, and the name that the query selects.
fn kind(path: &str, query: &str) -> String {
    let plural = path.rsplit('/').next().unwrap_or_default();
    let name = query.split('&').find_map(|part| part.strip_prefix("fieldSelector=metadata.name%3D"));
    name.map_or_else(|| plural.to_owned(), |name| format!("{plural}/{name}"))
}

impl ApiServer {
    /// Starts one with these objects, each with its plural under the key `plural`.
    pub(super) async fn start(objects: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (asked, hangs, fails) = (watch::channel(Vec::new()).0, watch::channel(None).0, watch::channel(None).0);
        let says = watch::channel(Vec::new()).0;
        let shared =
            Shared { objects, asked: asked.clone(), hangs: hangs.clone(), fails: fails.clone(), says: says.clone() };
        let shared = Arc::new(shared);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let connections = Arc::new(Mutex::new(JoinSet::new()));
            while let Ok((tcp, _)) = listener.accept().await {
                let shared = shared.clone();
                connections.lock().unwrap().spawn(async move {
                    let service = service_fn(move |request: Request<Incoming>| {
                        let shared = shared.clone();
                        async move { Ok::<_, Infallible>(shared.answer(request).await) }
                    });
                    // Clients hang up.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(tcp), service).await;
                });
            }
        });
        Self { url, asked, hangs, fails, says, _tasks: tasks }
    }

    /// From now on the lists of this kind hang; None: they are answered.
    pub(super) fn hang(&self, kind: Option<&str>) {
        self.hangs.send_replace(kind.map(str::to_owned));
    }

    /// From now on the lists of this kind fail, as they do while a conversion webhook is away; None: they are answered.
    pub(super) fn fail(&self, kind: Option<&str>) {
        self.fails.send_replace(kind.map(str::to_owned));
    }

    /// The watches of this kind show a change. Those that are opened later do not.
    pub(super) fn say(&self, kind: &str, change: &str, object: &Value) {
        let line = format!("{}\n", json!({"type": change, "object": object}));
        self.says.send_modify(|all| all.push((kind.to_owned(), line.into())));
    }

    /// Notes something among the requests.
    pub(super) fn mark(&self) {
        self.asked.send_modify(|all| all.push(Asked::Mark));
    }

    /// What was asked so far.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    /// Waits until the requests are so.
    pub(super) async fn until(&self, are_so: impl FnMut(&Vec<Asked>) -> bool) {
        self.asked.subscribe().wait_for(are_so).await.unwrap();
    }
}

impl Shared {
    fn note(&self, asked: Asked) {
        self.asked.send_modify(|all| all.push(asked));
    }

    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let uri = request.uri().clone();
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        if *request.method() != Method::GET {
            self.note(Asked::Write(format!("{} {path}", request.method())));
            let body = request.into_body().collect().await.unwrap().to_bytes();
            self.note(Asked::Body(String::from_utf8(body.into()).unwrap()));
            return whole(500, &json!({"kind": "Status", "message": "not now"}));
        }
        let kind = kind(path, query);
        if query.contains("watch=1") {
            let said = self.says.subscribe();
            let before = said.borrow().len();
            self.note(Asked::Watch(kind.clone()));
            let lines = futures::stream::unfold((said, before, kind), |(mut said, mut at, kind)| async move {
                let line = loop {
                    let all = said.wait_for(|all| all.len() > at).await.ok()?;
                    at += 1;
                    if all[at - 1].0 == kind {
                        break all[at - 1].1.clone();
                    }
                };
                Some((Ok::<_, Infallible>(Frame::data(line)), (said, at, kind)))
            });
            return Response::new(BoxBody::new(StreamBody::new(lines)));
        }
        let items: Vec<&Value> = self.objects.iter().filter(|one| one["plural"] == kind).collect();
        let list = json!({"metadata": {"resourceVersion": "9"}, "items": items});
        self.note(Asked::List(kind.clone(), list.to_string().len()));
        let mut hangs = self.hangs.subscribe();
        // The sender lives as long as this.
        let _ = hangs.wait_for(|one| one.as_ref() != Some(&kind)).await;
        if self.fails.borrow().as_ref() == Some(&kind) {
            return whole(500, &json!({"kind": "Status", "message": "conversion webhook failed"}));
        }
        whole(200, &list)
    }
}

fn whole(code: u16, body: &Value) -> Answer {
    Response::builder().status(code).body(Full::new(Bytes::from(body.to_string())).boxed()).unwrap()
}
