//! One request to the kernel and its answer, under a deadline.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use nix::errno::Errno;
use tokio::task::JoinHandle;

use super::error::Error;

/// How often a dump is taken again that changed under the kernel's hands.
const DUMPS: usize = 4;

/// The netlink socket for requests. One that broke is replaced by the next request.
#[derive(Debug)]
pub(super) struct Requests {
    deadline: Duration,
    open: Mutex<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    handle: rtnetlink::Handle,
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
        let answer = tokio::time::timeout(self.deadline, exchange).await;
        answer.map_err(|_| Failure::Deadline(self.deadline))?.map(|(answers, _)| answers)
    }

    /// Asks for all there is.
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
        tokio::time::timeout(self.deadline, all).await.map_err(|_| Failure::Deadline(self.deadline))?
    }

    /// The answers, and whether they are of one moment.
    async fn exchange(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<(Vec<RouteNetlinkMessage>, bool), Failure> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = flags;
        let mut handle = self.handle()?;
        let sent = handle.request(request).map_err(|error| Failure::Closed(error.to_string()));
        let mut stream = sent.inspect_err(|_| self.close())?;
        let (mut answers, mut whole) = (Vec::new(), true);
        // The end is told by the kernel. A stream that only stops means that the socket broke, not that all is well.
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

    fn handle(&self) -> Result<rtnetlink::Handle, Failure> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = open.as_ref().filter(|open| !open.connection.is_finished()) {
            return Ok(open.handle.clone());
        }
        let (mut connection, handle, _) =
            rtnetlink::new_connection().map_err(|error| Failure::Closed(error.to_string()))?;
        connection.set_forward_ack(true);
        connection.set_forward_done(true);
        *open = Some(Open { handle: handle.clone(), connection: tokio::spawn(connection) });
        Ok(handle)
    }

    fn close(&self) {
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
