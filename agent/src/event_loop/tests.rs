//! The loop with a core that notes its events and gives the outputs of a test, and an address task that only takes jobs, or
//! whose kernel stands still.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use super::*;
use crate::address_task::{Job, stalled};
use crate::core::Vip;
use crate::core::evidence::Form;
use crate::ops::Ops;

const VIP: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 100));

type Told = Event<&'static str>;
type Wants = Output<&'static str, &'static str>;

/// Notes what it is told. Its next outputs are the first of `wants`; time and interfaces change nothing for it.
#[derive(Default)]
struct FakeCore {
    told: Vec<Told>,
    wants: VecDeque<Vec<Wants>>,
    /// The loop ends with this input.
    ends_at: Option<&'static str>,
}

impl Core for FakeCore {
    type Input = &'static str;
    type Call = &'static str;
    type Report = &'static str;

    fn step(&mut self, _at: Moment, event: Told) -> Vec<Wants> {
        if matches!(event, Event::Tick | Event::Node { .. }) {
            return vec![];
        }
        if self.ends_at.is_some_and(|end| event == Event::Input(end)) {
            return vec![Output::Exit];
        }
        self.told.push(event);
        self.wants.pop_front().unwrap_or_default()
    }

    fn wake(&self) -> Option<Time> {
        None
    }

    fn listens_for(&self) -> BTreeSet<IpAddr> {
        BTreeSet::new()
    }
}

/// Hands everything on, and sends what it was asked for, with the events so far, to the test.
struct FakeAdapter {
    did: mpsc::UnboundedSender<(&'static str, Vec<Told>)>,
}

impl Adapter for FakeAdapter {
    type Core = FakeCore;
    type Answer = &'static str;
    type Message = &'static str;
    type Query = ();

    fn take_answer(&mut self, answer: &'static str) -> Told {
        Event::Input(answer)
    }

    fn take(&mut self, _core: &FakeCore, _interfaces: &[Interface], message: &'static str) -> Vec<Told> {
        vec![Event::Input(message)]
    }

    fn interfaces_changed(&mut self, _core: &FakeCore, _interfaces: &[Interface]) -> Vec<Told> {
        vec![]
    }

    fn new_needs(&mut self) -> Option<Needs> {
        None
    }

    fn before_step(&mut self, _at: Moment, _core: &FakeCore, _event: &Told) -> bool {
        false
    }

    fn call(&mut self, call: &'static str) {
        self.did.send((call, vec![])).unwrap();
    }

    fn report(&mut self, _at: Moment, core: &FakeCore, _interfaces: &[Interface], reports: Vec<&'static str>) {
        for report in reports {
            self.did.send((report, core.told.clone())).unwrap();
        }
    }

    fn answer(&self, _core: &FakeCore, _interfaces: &[Interface], (): ()) {}

    fn asked_to_end(&mut self, _again: bool) {}
}

struct Rig {
    event_loop: EventLoop<FakeAdapter>,
    inputs: Inputs<FakeAdapter>,
    jobs: mpsc::UnboundedReceiver<Job>,
    did: mpsc::UnboundedReceiver<(&'static str, Vec<Told>)>,
    notices: mpsc::Sender<Notice>,
    answers: mpsc::Sender<&'static str>,
    inbox: mpsc::Sender<&'static str>,
    heart: Heart,
    // The loop would take closed channels for quiet ones all the same.
    _queries: mpsc::Sender<()>,
}

fn rig(wants: Vec<Vec<Wants>>) -> Rig {
    let (addresses, jobs) = AddressTask::fake();
    let (notices, from_task) = mpsc::channel(8);
    rig_with(&Ops::new(datapath::clock::boottime, "node"), wants, (addresses, from_task), (notices, jobs))
}

/// The ends of an address task: those of the loop, and those of the test.
type TaskEnds = (AddressTask, mpsc::Receiver<Notice>);
type TestEnds = (mpsc::Sender<Notice>, mpsc::UnboundedReceiver<Job>);

fn rig_with(ops: &Arc<Ops>, wants: Vec<Vec<Wants>>, task: TaskEnds, (notices, jobs): TestEnds) -> Rig {
    let (addresses, from_task) = task;
    let heart = ops.liveness.watch("test", STUCK);
    let (segments, frames) = Segments::new(None, ops.clone());
    let (did, does) = mpsc::unbounded_channel();
    let (answers, answered) = mpsc::channel(8);
    let (inbox, messages) = mpsc::channel(8);
    let (queries, asked) = mpsc::channel(8);
    let core = FakeCore { wants: wants.into(), ..FakeCore::default() };
    let signals = Signals::catch().unwrap();
    let inputs = Inputs { signals, frames, notices: from_task, answers: answered, inbox: messages, queries: asked };
    let event_loop = EventLoop::new(core, FakeAdapter { did }, segments, addresses);
    Rig { event_loop, inputs, jobs, did: does, notices, answers, inbox, heart, _queries: queries }
}

fn ensure(deadline: u64) -> Wants {
    Output::Ensure { vips: vec![Vip { address: VIP, interface: 2 }], deadline: Time::from_nanos(deadline) }
}

#[tokio::test]
async fn jobs_keep_the_order_of_the_cores_outputs_and_the_end_waits_for_them() {
    let first = vec![ensure(1), Output::Report("took"), Output::Remove(vec![VIP])];
    let mut rig = rig(vec![first, vec![ensure(2), Output::Remove(vec![VIP]), Output::Exit]]);
    rig.inbox.try_send("one").unwrap();
    rig.inbox.try_send("two").unwrap();
    let task = async {
        let mut jobs = vec![];
        while let Some(job) = rig.jobs.recv().await {
            jobs.push(match job {
                Job::Ensure { deadline, .. } => format!("ensure {}", deadline.as_nanos()),
                Job::Remove(_) => "remove".to_owned(),
                Job::Flush(_) => "flush".to_owned(),
                other => format!("{other:?}"),
            });
        }
        jobs
    };
    let ((), jobs) = tokio::join!(rig.event_loop.run(rig.inputs, rig.heart), task);
    assert_eq!(jobs, ["ensure 1", "remove", "ensure 2", "remove", "flush"]);
}

#[tokio::test]
async fn a_flood_of_frames_keeps_nothing_else_from_the_core() {
    let mut rig = rig(vec![]);
    let (flood, frames) = mpsc::channel(256);
    rig.inputs.frames = frames;
    tokio::spawn(async move {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        while flood.send(Frame::Heard { index: 2, address: VIP, mac, form: Form::Claim }).await.is_ok() {}
    });
    // The answer is the event after which the core ends the loop.
    rig.answers.try_send("answer").unwrap();
    rig.event_loop.core.ends_at = Some("answer");
    let run = rig.event_loop.run(rig.inputs, rig.heart);
    tokio::time::timeout(Duration::from_secs(20), run).await.expect("the answer reaches the core");
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_hangs_holds_up_the_end_for_two_seconds() {
    let mut rig = rig(vec![vec![Output::Remove(vec![VIP]), Output::Exit]]);
    rig.inbox.try_send("end").unwrap();
    let began = tokio::time::Instant::now();
    // Nobody takes the jobs: the sender of the flush is never dropped.
    rig.event_loop.run(rig.inputs, rig.heart).await;
    assert_eq!(began.elapsed(), FLUSH);
    assert!(matches!(rig.jobs.try_recv(), Ok(Job::Remove(_))));
}

#[tokio::test]
async fn answers_and_notices_come_before_messages() {
    let mut rig = rig(vec![vec![], vec![], vec![Output::Report("three"), Output::Exit]]);
    rig.inbox.try_send("a message of a watch").unwrap();
    rig.notices.try_send(Notice::Gone(VIP)).unwrap();
    rig.answers.try_send("a late answer").unwrap();
    let ((), ()) = tokio::join!(rig.event_loop.run(rig.inputs, rig.heart), async {
        while let Some(job) = rig.jobs.recv().await {
            drop(job);
        }
    });
    let (_, told) = rig.did.recv().await.unwrap();
    let expected = [Event::Input("a late answer"), Event::Gone(VIP), Event::Input("a message of a watch")];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn what_the_address_task_says_reaches_the_core() {
    let mut rig = rig(vec![vec![]; 3].into_iter().chain([vec![Output::Report("all"), Output::Exit]]).collect());
    let reason = "it does not fit".to_owned();
    rig.notices.try_send(Notice::Ensured(vec![VIP])).unwrap();
    rig.notices.try_send(Notice::NotRefreshed(vec![VIP])).unwrap();
    rig.notices.try_send(Notice::Gone(VIP)).unwrap();
    rig.notices.try_send(Notice::EnsureFailed { address: VIP, reason: reason.clone() }).unwrap();
    let ((), ()) = tokio::join!(rig.event_loop.run(rig.inputs, rig.heart), async {
        while let Some(job) = rig.jobs.recv().await {
            drop(job);
        }
    });
    let (_, told) = rig.did.recv().await.unwrap();
    let failed = Event::EnsureFailed { address: VIP, reason };
    assert_eq!(told, [Event::Ensured(vec![VIP]), Event::NotRefreshed(vec![VIP]), Event::Gone(VIP), failed]);
}

thread_local! {
    static START: tokio::time::Instant = tokio::time::Instant::now();
}

/// The tests' time, which passes at once when nothing else is to do.
fn paused_clock() -> Time {
    Time::default() + START.with(tokio::time::Instant::elapsed)
}

/// The kernel's networking lock is held for minutes, as by the reset of a network card.
#[tokio::test(start_paused = true)]
async fn while_the_kernel_stands_still_the_loop_goes_on() {
    const SECONDS: usize = 60;
    let ops = Ops::new(paused_clock, "node");
    let (started, mut stall) = stalled::start(&ops, ops.liveness.watch("addresses", STUCK));
    let mut wants = vec![vec![ensure(1)]];
    wants.extend((0..SECONDS).map(|_| vec![Output::Call("renew"), ensure(2)]));
    wants.push(vec![Output::Remove(vec![VIP]), Output::Exit]);
    let (notices, _) = mpsc::channel(8);
    let (_, jobs) = mpsc::unbounded_channel();
    let rig = rig_with(&ops, wants, (started.task, started.notices), (notices, jobs));
    let (inbox, answers, mut did) = (rig.inbox.clone(), rig.answers.clone(), rig.did);
    let test = async {
        inbox.send("take").await.unwrap();
        stall.began.recv().await.unwrap();
        for _ in 0..SECONDS {
            tokio::time::sleep(Duration::from_secs(1)).await;
            answers.send("an answer").await.unwrap();
            assert_eq!(did.recv().await.unwrap().0, "renew");
            let silent: Vec<_> = ops.liveness.stale().into_iter().map(|one| one.name).collect();
            assert!(!silent.contains(&"test"), "the loop's heart does not beat: {silent:?}");
        }
        let silent: Vec<_> = ops.liveness.stale().into_iter().map(|one| one.name).collect();
        assert_eq!(silent, ["addresses"], "/livez tells that the kernel does not answer");
        answers.send("the end").await.unwrap();
    };
    let ((), ()) = tokio::join!(rig.event_loop.run(rig.inputs, rig.heart), test);
    assert!(stall.began.try_recv().is_err(), "the kernel is still in its first request");
}
