//! The pauses of a simulated answer, and the replies to its calls.

use std::collections::BTreeMap;

use domain::pause::{CallReply, GivenReply, LastPause, PauseState};
use domain::step::{AwaitedCall, ReplyKind};

/// The stored state of an answer's pauses.
#[derive(Default)]
pub(crate) struct SimulatedPause {
    /// The deadline of a pause, until each call has its reply.
    pub(crate) until: Option<u64>,
    pub(crate) last: Option<LastPause>,
    /// The calls that await a reply, or have one.
    pub(crate) calls: BTreeMap<String, (ReplyKind, Option<CallReply>)>,
}

impl SimulatedPause {
    pub(crate) fn begin(&mut self, step: u32, calls: Vec<AwaitedCall>, deadline: u64) {
        assert!(self.last.is_none_or(|last| last.step < step), "a step is paused once");
        self.last = Some(LastPause { step, instance: None });
        self.until = Some(deadline);
        for AwaitedCall { call, kind } in calls {
            assert!(self.calls.insert(call, (kind, None)).is_none(), "a call is asked for once");
        }
    }

    pub(crate) fn state(&self, expired: bool) -> PauseState {
        let replies = self
            .calls
            .iter()
            .filter_map(|(call, (_, reply))| Some(GivenReply { call: call.clone(), reply: reply.clone()? }));
        PauseState { last: self.last, replies: replies.collect(), expired }
    }

    /// Takes the reply to a call: the first one counts. Returns whether it was taken, now or before.
    pub(crate) fn take_reply(&mut self, call: &str, reply: CallReply, now: u64) -> bool {
        let is_open = self.until.is_some_and(|until| now < until);
        let Some((kind, given)) = self.calls.get_mut(call) else { return false };
        assert!(reply.fits(*kind));
        match given {
            Some(given) => return *given == reply,
            None if is_open => *given = Some(reply),
            None => return false,
        }
        if self.calls.values().all(|(_, reply)| reply.is_some()) {
            self.until = None;
        }
        true
    }

    pub(crate) fn reply_to(&self, call: &str) -> Option<&CallReply> {
        self.calls.get(call)?.1.as_ref()
    }

    /// Returns true if a call of the last step has no reply.
    pub(crate) fn lacks_reply(&self) -> bool {
        self.calls.values().any(|(_, reply)| reply.is_none())
    }
}
