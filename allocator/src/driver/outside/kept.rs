//! What was made of a Secret: kept for as long as the Secret says the same, and may be read.
//!
//! A credential that was replaced, deleted or closed to the allocator is not used again, whatever the next read says. An API server that
//! is away ends nothing: what was read before may still be right. A call that is under way ends with what it began with.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use mooring_allocator_core::remote::Failure;

use super::credentials::{Secret, Unread};

/// The Secret is read again after this time.
const LASTS: Duration = Duration::from_secs(15);

/// What is made of one Secret.
pub(super) struct Kept<T> {
    state: RefCell<State<T>>,
    /// How many reads have begun.
    begun: Cell<u64>,
    /// The last read that has decided something: the answer to an earlier one that comes later is old.
    decided: Cell<u64>,
}

enum State<T> {
    /// The Secret was not read yet, or what it said may not be used any more.
    Nothing,
    /// Made of this Secret, which was read at that time.
    Made { read: Duration, secret: Secret, made: Rc<T> },
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { state: RefCell::new(State::Nothing), begun: Cell::new(0), decided: Cell::new(0) }
    }
}

impl<T> Kept<T> {
    /// What there is now; None: nothing that may be used.
    pub(super) fn now(&self) -> Option<Rc<T>> {
        match &*self.state.borrow() {
            State::Nothing => None,
            State::Made { made, .. } => Some(made.clone()),
        }
    }

    /// What was made of the Secret; another one is made if the Secret has changed.
    ///
    /// # Errors
    /// There is none, and why.
    pub(super) async fn get(
        &self,
        now: Duration,
        read: impl Future<Output = Result<Secret, Unread>>,
        build: impl FnOnce(&Secret) -> Result<T, String>,
    ) -> Result<Rc<T>, Failure> {
        if let State::Made { read, made, .. } = &*self.state.borrow()
            && now < *read + LASTS
        {
            return Ok(made.clone());
        }
        let number = self.begun.get() + 1;
        self.begun.set(number);
        let said = read.await;
        if number < self.decided.get() {
            return self.now().ok_or(Failure::NotSent);
        }
        let secret = match said {
            Ok(secret) => secret,
            Err(error) => {
                if error.ends() {
                    self.decided.set(number);
                    self.state.replace(State::Nothing);
                }
                return self.now().ok_or_else(|| Failure::Refused(error.to_string()));
            }
        };
        self.decided.set(number);
        if let State::Made { read, secret: before, made } = &mut *self.state.borrow_mut()
            && *before == secret
        {
            *read = now;
            return Ok(made.clone());
        }
        // What was made of an earlier Secret ends here, whether or not the new one can be used.
        self.state.replace(State::Nothing);
        let made = Rc::new(build(&secret).map_err(Failure::Refused)?);
        self.state.replace(State::Made { read: now, secret, made: made.clone() });
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::api::ApiError;

    fn secret(password: &str) -> Secret {
        Secret::with("password", password)
    }

    fn away() -> Result<Secret, Unread> {
        Err(Unread::Away("Secret s/x".into(), ApiError::Timeout(Duration::from_secs(1))))
    }

    /// The password that may be used after another read, which is due each time.
    async fn after(kept: &Kept<String>, said: Result<Secret, Unread>) -> Result<String, Failure> {
        let now = LASTS * u32::try_from(kept.begun.get()).unwrap();
        let make = |secret: &Secret| match secret.text("password") {
            Some(password) => Ok(password),
            None => Err("no password".to_owned()),
        };
        kept.get(now, async { said }, make).await.map(|made| (*made).clone())
    }

    #[tokio::test]
    async fn an_api_server_that_is_away_ends_nothing() {
        let kept = Kept::default();
        assert!(after(&kept, away()).await.unwrap_err().to_string().contains("cannot be read"));
        for said in [Ok(secret("one")), away(), away(), Ok(secret("one")), away()] {
            assert_eq!(after(&kept, said).await.as_deref(), Ok("one"));
        }
    }

    #[tokio::test]
    async fn what_was_replaced_is_not_used_again_whatever_the_next_read_says() {
        let kept = Kept::default();
        assert_eq!(after(&kept, Ok(secret("one"))).await.as_deref(), Ok("one"));
        // The new one cannot be used: nor can the old one.
        let unfit = Ok(Secret::with("user", "x"));
        assert_eq!(after(&kept, unfit).await, Err(Failure::Refused("no password".into())));
        assert!(matches!(after(&kept, away()).await, Err(Failure::Refused(_))));
        assert_eq!(after(&kept, Ok(secret("two"))).await.as_deref(), Ok("two"));
        assert_eq!(after(&kept, away()).await.as_deref(), Ok("two"));
    }

    #[tokio::test]
    async fn one_that_is_gone_or_closed_ends_what_was_made_of_it() {
        for (ends, why) in [
            (Unread::Gone as fn(String) -> Unread, "Secret s/x does not exist: create it"),
            (Unread::Closed, "Secret s/x must not be read: grant get on it to the allocator"),
        ] {
            let kept = Kept::default();
            assert_eq!(after(&kept, Ok(secret("one"))).await.as_deref(), Ok("one"));
            let said = Err(ends("Secret s/x".into()));
            assert_eq!(after(&kept, said).await, Err(Failure::Refused(why.into())));
            assert!(matches!(after(&kept, away()).await, Err(Failure::Refused(_))), "{why}");
            assert_eq!(after(&kept, Ok(secret("one"))).await.as_deref(), Ok("one"));
        }
    }

    #[tokio::test]
    async fn a_late_answer_brings_no_earlier_secret_back() {
        let kept = Kept::default();
        assert_eq!(after(&kept, Ok(secret("one"))).await.as_deref(), Ok("one"));
        let (answer, slow) = oneshot::channel();
        let make = |secret: &Secret| secret.text("password").ok_or_else(String::new);
        let late = kept.get(LASTS, async { slow.await.unwrap() }, make);
        let meanwhile = async {
            assert_eq!(after(&kept, Ok(secret("two"))).await.as_deref(), Ok("two"));
            assert!(answer.send(Ok(secret("one"))).is_ok());
        };
        let (late, ()) = tokio::join!(late, meanwhile);
        assert_eq!(late.unwrap().as_str(), "two");
        assert_eq!(after(&kept, away()).await.as_deref(), Ok("two"));
    }
}
