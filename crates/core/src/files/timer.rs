//! What shall happen at a time. A timer is opened and closed by facts; firing one that changed meanwhile is refused.

use serde::{Deserialize, Serialize};

use super::ConflictEscalated;
use crate::kernel::code::Code;
use crate::kernel::id::{Seq, TimerId};
use crate::kernel::rejection::Rejection;
use crate::model::timer::Purpose;
use crate::model::{Key, ReadSet, Undecided};
use crate::traits::{AnyEvent, Command, Decision, DecisionContext, ReplySource};

/// Does what the timer is for, if it is still the one that fell due.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FireTimer {
    pub timer: TimerId,
    pub version: Seq,
}

impl Command for FireTimer {
    const NAME: &'static str = "FireTimer";

    type Reply = ();

    fn read_set(&self) -> ReadSet {
        vec![Key::Timer(self.timer.clone()).into()]
    }

    fn decide(&self, cx: &DecisionContext<'_>) -> Result<Decision<()>, Undecided> {
        let stale = || Undecided::from(Rejection::new(Code::Stale, format!("timer {} is not due", self.timer)));
        let timer = cx.view.timer(&self.timer)?.ok_or_else(stale)?;
        if timer.version != self.version || timer.due > cx.now {
            return Err(stale());
        }
        let fact = match &timer.purpose {
            Purpose::EscalateConflict { path } => {
                let file = cx.view.find_file(path.key())?;
                let conflict = file.and_then(|file| file.conflict.as_ref()).ok_or_else(stale)?;
                AnyEvent::new(ConflictEscalated {
                    path: path.clone(),
                    holder: conflict.holder.clone(),
                    intruder: conflict.intruder.clone(),
                    timer: timer.id.clone(),
                    timer_version: timer.version,
                })
            }
        };
        Ok(Decision::new(vec![fact], ReplySource::done()))
    }
}
