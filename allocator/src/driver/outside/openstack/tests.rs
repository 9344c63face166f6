mod random;

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use mooring_allocator_core::names::{Key, Uid};
use mooring_allocator_core::remote::{Answer, Entry, Failure, Mark, What};
use mooring_allocator_openstack::clouds;
use mooring_allocator_openstack::rules::{Pool, tag};
use mooring_api::pool::ReclaimPolicy;
use mooring_neutron::{CREDENTIAL, Cloud, Fault, Rule, USER, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{FloatingPool, Session};

/// A cloud, served.
struct Served {
    cloud: Cloud,
    url: String,
    task: JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn served(addresses: u8) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let all: Vec<Ipv4Addr> = (1..=addresses).map(|last| Ipv4Addr::new(203, 0, 113, last)).collect();
    let cloud = Cloud::new(&all, &url);
    let serving = serve(cloud.clone(), listener);
    Served { cloud, url, task: tokio::spawn(async move { match serving.await {} }) }
}

impl Served {
    fn access(&self, auth: &Value) -> String {
        let mut auth = auth.clone();
        auth["auth_url"] = json!(format!("{}/v3", self.url));
        let clouds = json!({"clouds": {"openstack": {"auth": auth}}});
        clouds.to_string()
    }

    fn password(&self) -> String {
        let (user, password) = USER;
        self.access(&json!({"username": user, "password": password, "project_name": user, "domain_id": "default"}))
    }

    fn pool(&self, given: &[IpAddr], most: Option<usize>, reclaim: ReclaimPolicy) -> FloatingPool {
        pool_with(&self.password(), given, most, reclaim)
    }

    /// Waits until no request is being answered.
    async fn quiet(&self) {
        // Connections are taken in order: behind this one's answer there is none left from before.
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        drop(stream);
        while self.cloud.connections() > 0 {
            tokio::task::yield_now().await;
        }
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.cloud.floating_ips().iter().map(|one| one.address.into()).collect()
    }
}

fn pool_with(file: &str, given: &[IpAddr], most: Option<usize>, reclaim: ReclaimPolicy) -> FloatingPool {
    let session = Session::new(clouds::read(file, "openstack", None).unwrap(), None).unwrap();
    let rules = Pool { uid: "pool-uid".into(), given: given.to_vec(), most, reclaim, tag: tag("fips") };
    FloatingPool::new(session, rules, None, Rc::default())
}

fn mark(claim: &str) -> Mark {
    Mark { claim: Uid::from(claim), name: Key::new("shop", claim), address: None }
}

async fn allocate(pool: &FloatingPool, claim: &str) -> Result<Entry, Failure> {
    match pool.call(&What::Allocate(mark(claim), None)).await? {
        Answer::Entry(entry) => Ok(entry),
        other => panic!("{other:?}"),
    }
}

async fn find(pool: &FloatingPool, mark: Mark) -> Vec<Entry> {
    find_some(pool, mark).await.unwrap()
}

async fn find_some(pool: &FloatingPool, mark: Mark) -> Result<Vec<Entry>, Failure> {
    match pool.call(&What::Find(mark)).await? {
        Answer::Entries(all) => Ok(all),
        other => panic!("{other:?}"),
    }
}

async fn release(pool: &FloatingPool, entry: Entry) {
    assert_eq!(pool.call(&What::Release(entry)).await, Ok(Answer::Done));
}

#[tokio::test]
async fn a_floating_ip_is_made_tagged_found_and_deleted() {
    let served = served(5).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    assert_eq!(find(&pool, mark("a")).await, []);
    let entry = allocate(&pool, "a").await.unwrap();
    assert_eq!((entry.prefix, entry.gateway, &*entry.host, entry.ours), (32, None, "a.shop", true));
    let there = served.cloud.floating_ips();
    assert_eq!(there[0].tags, [tag("fips")]);
    assert_eq!(find(&pool, mark("a")).await, std::slice::from_ref(&entry));
    assert_eq!(find(&pool, mark("b")).await, []);
    release(&pool, entry.clone()).await;
    release(&pool, entry).await;
    assert_eq!(served.cloud.floating_ips(), []);
}

#[tokio::test]
async fn an_application_credential_logs_in() {
    let served = served(5).await;
    let (id, secret) = CREDENTIAL;
    let auth = json!({"application_credential_id": id, "application_credential_secret": secret});
    let pool = pool_with(&served.access(&auth), &[], None, ReclaimPolicy::Delete);
    allocate(&pool, "a").await.unwrap();
}

#[tokio::test]
async fn a_forgotten_token_is_made_again_once() {
    let served = served(5).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    allocate(&pool, "a").await.unwrap();
    served.cloud.forget_tokens();
    allocate(&pool, "b").await.unwrap();
    assert_eq!(served.cloud.asked("POST", "/v3/auth/tokens"), 2);
    served.cloud.fault(Rule { method: "", path: "/v2.0", times: 2, fault: Fault::Status(401) });
    assert!(matches!(allocate(&pool, "c").await, Err(Failure::Refused(text)) if text.contains("token")));
    assert_eq!(served.cloud.asked("POST", "/v3/auth/tokens"), 3);
}

#[tokio::test]
async fn a_token_that_ends_is_made_again_before_it_is_refused() {
    let served = served(5).await;
    served.cloud.tokens_last(0);
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    allocate(&pool, "a").await.unwrap();
    let before = served.cloud.asked("POST", "/v3/auth/tokens");
    allocate(&pool, "b").await.unwrap();
    assert!(served.cloud.asked("POST", "/v3/auth/tokens") > before);
}

#[tokio::test]
async fn wrong_credentials_are_said_and_not_shown() {
    let served = served(5).await;
    served.cloud.lock_out(true);
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    let Err(Failure::Refused(text)) = allocate(&pool, "a").await else { panic!("let in") };
    assert!(text.starts_with("Keystone refuses the credentials"), "{text}");
    let shown = format!("{text} {pool:?}");
    assert!(!shown.contains(USER.1), "{shown}");
}

#[tokio::test]
async fn the_three_meanings_of_a_conflict() {
    let served = served(2).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    served.cloud.quota(Some(1));
    let first = allocate(&pool, "a").await.unwrap();
    assert!(matches!(allocate(&pool, "b").await, Err(Failure::Full(text)) if text.contains("Quota exceeded")));
    served.cloud.quota(None);
    allocate(&pool, "b").await.unwrap();
    assert!(matches!(allocate(&pool, "c").await, Err(Failure::Full(text)) if text.contains("No more IP addresses")));
    let wanted = What::Allocate(mark("c"), Some(first.address));
    assert!(matches!(pool.call(&wanted).await, Err(Failure::Unfit(_))));
}

#[tokio::test]
async fn an_answer_that_is_lost_is_not_a_refusal() {
    let served = served(5).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    for fault in [Fault::Lost, Fault::Half, Fault::Status(500)] {
        served.cloud.fault(Rule { method: "POST", path: "/v2.0/floatingips", times: 1, fault });
        assert!(matches!(allocate(&pool, "a").await, Err(Failure::Lost(_))), "{fault:?}");
    }
    // The effect of two of them stands, and bears the claim.
    assert_eq!(find(&pool, mark("a")).await.len(), 2);
}

#[tokio::test]
async fn a_service_that_is_not_there_has_done_nothing() {
    let served = served(5).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    served.task.abort();
    while !served.task.is_finished() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(allocate(&pool, "a").await, Err(Failure::Refused(text)) if text.contains("Keystone")));
}

#[tokio::test]
async fn the_list_is_given_first_and_never_deleted() {
    let served = served(5).await;
    let given: Vec<IpAddr> =
        ["Ingress", ""].iter().map(|text| served.cloud.allocate(text).unwrap().address.into()).collect();
    let pool = served.pool(&given, Some(2), ReclaimPolicy::Delete);
    let (a, b) = (allocate(&pool, "a").await.unwrap(), allocate(&pool, "b").await.unwrap());
    assert_eq!([a.address, b.address], *given);
    let Err(Failure::Full(text)) = allocate(&pool, "c").await else { panic!("not full") };
    assert!(text.contains("maxIPs is 2"), "{text}");
    assert_eq!(find(&pool, mark("a")).await, std::slice::from_ref(&a));
    release(&pool, a).await;
    release(&pool, b).await;
    let there = served.cloud.floating_ips();
    assert_eq!(there.iter().map(|one| &*one.description).collect::<Vec<_>>(), ["Ingress", ""]);
}

#[tokio::test]
async fn what_a_status_shows_is_known() {
    let served = served(5).await;
    let there: IpAddr = served.cloud.allocate("").unwrap().address.into();
    let gone: IpAddr = [198, 51, 100, 1].into();
    let pool = served.pool(&[there, gone], None, ReclaimPolicy::Retain);
    let made = [allocate(&pool, "a").await.unwrap(), allocate(&pool, "b").await.unwrap()].map(|one| one.address);
    assert_eq!(made[0], there);
    let Ok(Answer::Listing(entries, None)) = pool.call(&What::List).await else { panic!("no list") };
    assert_eq!(entries.len(), 2);
    let (stock, network) = (pool.look().stock.unwrap(), pool.look().network.unwrap());
    assert_eq!((stock.there, stock.missing, &*network.name), (made.to_vec(), vec![gone], "public"));
}

#[tokio::test]
async fn what_is_retained_is_given_again() {
    let served = served(5).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Retain);
    let entry = allocate(&pool, "a").await.unwrap();
    let address = entry.address;
    release(&pool, entry.clone()).await;
    assert_eq!(served.addresses(), [address]);
    let again = allocate(&pool, "b").await.unwrap();
    assert_eq!(again.address, address);
    // A late release of its former claim changes nothing.
    release(&pool, entry).await;
    assert_eq!(find(&pool, mark("b")).await, [again]);
}

#[tokio::test]
async fn many_at_once_get_one_each_and_no_more_than_max_ips() {
    let served = served(40).await;
    let given: Vec<IpAddr> = (0..5).map(|_| served.cloud.allocate("").unwrap().address.into()).collect();
    let pool = served.pool(&given, Some(12), ReclaimPolicy::Retain);
    let names: Vec<String> = (0..20).map(|number| format!("claim-{number}")).collect();
    let all = futures::future::join_all(names.iter().map(|name| allocate(&pool, name))).await;
    let mut got: Vec<IpAddr> = all.iter().filter_map(|one| Some(one.as_ref().ok()?.address)).collect();
    got.sort();
    got.dedup();
    assert_eq!((got.len(), all.iter().filter(|one| matches!(one, Err(Failure::Full(_)))).count()), (12, 8));
}

#[tokio::test]
async fn others_who_are_faster_are_seen() {
    let served = served(5).await;
    let given: Vec<IpAddr> = (0..2).map(|_| served.cloud.allocate("").unwrap().address.into()).collect();
    let pools = [(); 2].map(|()| served.pool(&given, Some(2), ReclaimPolicy::Delete));
    let (a, b) = tokio::join!(allocate(&pools[0], "a"), allocate(&pools[1], "b"));
    assert_ne!(a.unwrap().address, b.unwrap().address);
}

#[tokio::test]
async fn what_the_former_controller_gave_is_taken_over() {
    let served = served(5).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    let theirs = served.cloud.allocate("Created by cluster-api-provider-openstack").unwrap();
    served.cloud.change(&theirs.id, |one| one.tags.push(tag("fips")));
    let bound = Mark { address: Some(theirs.address.into()), ..mark("a") };
    let found = find(&pool, bound.clone()).await;
    assert_eq!((found.len(), &found[0].claim), (1, &None));
    assert_eq!(pool.call(&What::PutBack(bound.clone())).await, Ok(Answer::Done));
    let entry = find(&pool, bound).await.remove(0);
    assert_eq!((entry.claim.clone(), entry.ours), (Some(Uid::from("a")), true));
    release(&pool, entry).await;
    assert_eq!(served.cloud.floating_ips(), []);
}

#[tokio::test]
async fn what_was_moved_with_its_pool_is_found_and_let_go() {
    let served = served(5).await;
    let theirs = served.cloud.allocate("mooring made claim=old pool=old for=a.shop").unwrap();
    let bound = Mark { address: Some(theirs.address.into()), ..mark("a") };
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    // Without the pool's tag, it may be of another pool.
    assert_eq!(find(&pool, bound.clone()).await, []);
    served.cloud.change(&theirs.id, |one| one.tags.push(tag("fips")));
    let entry = find(&pool, bound.clone()).await.remove(0);
    assert!(entry.ours);
    assert_eq!(pool.call(&What::PutBack(bound.clone())).await, Ok(Answer::Done));
    let entry = find(&pool, bound).await.remove(0);
    assert_eq!(entry.claim, Some(Uid::from("a")));
    release(&pool, entry).await;
    assert_eq!(served.cloud.floating_ips(), []);
}

#[tokio::test]
async fn a_strangers_floating_ip_is_not_put_back() {
    let served = served(5).await;
    let pool = served.pool(&[], None, ReclaimPolicy::Delete);
    let theirs = served.cloud.allocate("of the shop").unwrap();
    let bound = Mark { address: Some(theirs.address.into()), ..mark("a") };
    let Err(Failure::Unfit(text)) = pool.call(&What::PutBack(bound)).await else { panic!("taken") };
    assert!(text.contains("of the shop"), "{text}");
    assert_eq!(served.cloud.floating_ips(), [theirs]);
}
