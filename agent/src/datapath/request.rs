//! One request to the kernel and its answer, under a deadline.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use rtnetlink::sys::SocketAddr;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use tokio::task::JoinHandle;

use super::error::Error;

/// How often a dump is repeated when the kernel's state changed during the dump.
pub(super) const DUMPS: usize = 4;

/// How much longer than its deadline a request waits for an answer that the kernel has already given.
///
/// The kernel handles a change inside the call that sends the request, and waits there for its networking lock. So the whole
/// thread stands still for as long as another program holds the lock. When the thread goes on, the deadline is over, and the
/// answer waits in the socket: the timer must not be first.
const READ_OUT: Duration = Duration::from_millis(100);

/// At most this many changes go into one datagram. The kernel acknowledges each of them; 300 acknowledgements overrun a
/// socket's default buffer (measured).
const BATCH: usize = 200;

type Handle = rtnetlink::proto::ConnectionHandle<RouteNetlinkMessage>;

/// The netlink socket for requests. One that broke is replaced by the next request.
#[derive(Debug)]
pub(super) struct Requests {
    deadline: Duration,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    handle: Handle,
    connection: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// Why there is no answer; [`Failure::about`] makes an [`Error`] of it.
#[derive(Debug)]
pub(super) enum Failure {
    Errno(Errno),
    Deadline(Duration),
    Closed(String),
}

impl Failure {
    /// The failure of `what`, a short "did this to that".
    pub(super) fn about(self, what: String, v6: bool) -> Error {
        match self {
            Self::Errno(errno) => Error::Kernel { what, errno, v6 },
            Self::Deadline(deadline) => Error::Deadline { what, deadline },
            Self::Closed(reason) => Error::Netlink { what, reason },
        }
    }
}

impl Requests {
    pub(super) fn open(deadline: Duration) -> Result<Self, Error> {
        let requests = Self { deadline, open: Mutex::new(None) };
        requests.handle().map_err(|failure| failure.about("open".into(), false))?;
        Ok(requests)
    }

    /// Asks for a change (`flags` are added to REQUEST and ACK), or for one object.
    pub(super) async fn ask(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>, Failure> {
        let exchange = self.exchange(message, NLM_F_REQUEST | NLM_F_ACK | flags);
        self.in_time(exchange).await.map(|(answers, _)| answers)
    }

    /// The answer to a request, under the deadline.
    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let mut answer = pin!(answer);
        if let Ok(answer) = tokio::time::timeout(self.deadline, &mut answer).await {
            return answer;
        }
        let answered = tokio::time::timeout(READ_OUT, answer).await;
        answered.unwrap_or(Err(Failure::Deadline(self.deadline)))
    }

    /// Asks for many changes in few datagrams, and returns the result of each in their order. The deadline is for each
    /// datagram. When this fails, the last changes may not have been sent.
    pub(super) async fn batch(
        &self,
        changes: Vec<(RouteNetlinkMessage, u16)>,
    ) -> Result<Vec<Result<(), Errno>>, Failure> {
        let mut outcomes = Vec::with_capacity(changes.len());
        let mut changes = changes.into_iter().peekable();
        while changes.peek().is_some() {
            let some = changes.by_ref().take(BATCH).map(|(message, flags)| {
                let mut request = NetlinkMessage::from(message);
                request.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
                request
            });
            let some: Vec<_> = some.collect();
            let until = outcomes.len() + some.len();
            let answers = self.acknowledged(some, &mut outcomes, until);
            self.in_time(answers).await?;
        }
        Ok(outcomes)
    }

    /// The kernel answers the messages of a datagram in their order, each with one acknowledgement or error.
    async fn acknowledged(
        &self,
        messages: Vec<NetlinkMessage<RouteNetlinkMessage>>,
        outcomes: &mut Vec<Result<(), Errno>>,
        until: usize,
    ) -> Result<(), Failure> {
        let sent = self.handle()?.request_batch(messages, kernel());
        let sent = sent.map_err(|error| Failure::Closed(error.to_string()));
        let mut stream = sent.inspect_err(|_| self.close())?;
        while let Some(answer) = stream.next().await {
            match answer.payload {
                NetlinkPayload::Error(error) => {
                    outcomes.push(error.code.map_or(Ok(()), |code| Err(Errno::from_raw(code.get().saturating_neg()))));
                }
                NetlinkPayload::Overrun(_) => return Err(Failure::Errno(Errno::ENOBUFS)),
                _ => {}
            }
        }
        if outcomes.len() == until {
            return Ok(());
        }
        self.close();
        Err(Failure::Closed("it ended in the middle of the answers".into()))
    }

    /// Asks for all objects of a kind.
    pub(super) async fn dump(&self, message: RouteNetlinkMessage) -> Result<Vec<RouteNetlinkMessage>, Failure> {
        let all = async {
            for _ in 0..DUMPS {
                let (answers, whole) = self.exchange(message.clone(), NLM_F_REQUEST | NLM_F_DUMP).await?;
                if whole {
                    return Ok(answers);
                }
            }
            Err(Failure::Errno(Errno::EINTR))
        };
        self.in_time(all).await
    }

    /// The answers, and whether they show the state of one moment.
    async fn exchange(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(Vec<RouteNetlinkMessage>, bool), Failure> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = flags;
        let sent = self.handle()?.request(request, kernel()).map_err(|error| Failure::Closed(error.to_string()));
        let mut stream = sent.inspect_err(|_| self.close())?;
        let (mut answers, mut whole) = (Vec::new(), true);
        // The kernel marks the end of a dump. A stream that only stops means that the socket broke.
        while let Some(answer) = stream.next().await {
            whole &= answer.header.flags & NLM_F_DUMP_INTR == 0;
            match answer.payload {
                NetlinkPayload::InnerMessage(message) => answers.push(message),
                NetlinkPayload::Error(error) => match error.code {
                    None => return Ok((answers, whole)),
                    Some(code) => return Err(Failure::Errno(Errno::from_raw(code.get().saturating_neg()))),
                },
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(Failure::Errno(Errno::from_raw(done.code.saturating_neg())));
                }
                NetlinkPayload::Done(_) => return Ok((answers, whole)),
                NetlinkPayload::Overrun(_) => return Err(Failure::Errno(Errno::ENOBUFS)),
                _ => {}
            }
        }
        self.close();
        Err(Failure::Closed("it ended in the middle of an answer".into()))
    }

    fn handle(&self) -> Result<Handle, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.as_ref().filter(|open| !open.connection.is_finished()) {
            return Ok(open.handle.clone());
        }
        let (mut connection, handle, _) = rtnetlink::proto::new_connection::<RouteNetlinkMessage>(NETLINK_ROUTE)
            .map_err(|error| Failure::Closed(error.to_string()))?;
        connection.set_forward_ack(true);
        connection.set_forward_done(true);
        *open = Some(Open { handle: handle.clone(), connection: tokio::spawn(connection) });
        Ok(handle)
    }

    fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The kernel's address on a netlink socket.
fn kernel() -> SocketAddr {
    SocketAddr::new(0, 0)
}
