//! What waits for an agent, without its words: enough to count it, and to choose what is shown.

use rookery_core::model::agent::Agent;
use rookery_core::model::message::{AddressedAs, Delivery, Form, Message, Standing};
use rookery_core::{MessageId, Seq, TaskId, Timestamp};

/// How many messages to an agent, and how many to everybody, are looked at: the newest.
pub(super) const MAX_WAITING: usize = 10_000;

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct InboxDelivery {
    pub(super) message: MessageId,
    pub(super) sent: Seq,
    pub(super) standing: Standing,
    pub(super) form: Form,
    /// Whether it wants attention: what tells of a session does not.
    pub(super) calls: bool,
    /// Given up on.
    pub(super) dead: bool,
    /// The task that it is about.
    pub(super) task: Option<TaskId>,
    pub(super) queued_at: Timestamp,
}

impl InboxDelivery {
    /// The place of a delivery that still counts. One that waited for its agent counts if the agent joined in time.
    pub(super) fn of(delivery: Delivery, known: Option<&Agent>, now: Timestamp) -> Option<InboxDelivery> {
        let (form, calls) = match delivery.to {
            AddressedAs::Recipient { form, wakes } => (form, wakes),
            AddressedAs::Awaited { form, wakes, until } => {
                let in_time = known.map_or(now, |agent| agent.joined_at) <= until;
                (in_time || delivery.standing != Standing::Queued).then_some((form, wakes))?
            }
            AddressedAs::Everyone => return None,
        };
        let dead = delivery.is_dead();
        let Delivery { message, sent, standing, task, queued_at, .. } = delivery;
        Some(InboxDelivery { message, sent, standing, form, calls, dead, task, queued_at })
    }

    pub(super) fn of_broadcast(message: &Message, delivery: Option<&Delivery>) -> InboxDelivery {
        let header = &message.letter.header;
        let calls = header.wakes || header.requires_ack;
        let standing = delivery.map_or(Standing::Queued, |delivery| delivery.standing);
        let dead = delivery.is_some_and(Delivery::is_dead);
        let (id, task) = (message.id().clone(), header.task.clone());
        InboxDelivery {
            message: id,
            sent: message.sent,
            standing,
            form: header.form,
            calls,
            dead,
            task,
            queued_at: message.at,
        }
    }

    pub(super) fn is_unseen(&self) -> bool {
        self.standing == Standing::Queued
    }

    /// What has the least goes first where not all fit.
    pub(super) fn turn(&self) -> (bool, bool, bool, Seq) {
        (self.dead, !self.is_unseen(), !self.calls, self.sent)
    }
}

/// As many as fit, in order. What was never shown goes before what was, so that nothing new hides behind what is old;
/// of either, what wants attention goes first, and the oldest. What was given up on goes last.
pub(super) fn chosen(mut places: Vec<InboxDelivery>, limit: u32) -> Vec<InboxDelivery> {
    places.sort_by_key(InboxDelivery::turn);
    places.truncate(limit as usize);
    places.sort_by_key(|place| place.sent);
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(sent: u64, standing: Standing, calls: bool) -> InboxDelivery {
        let message = format!("m{sent}").as_str().into();
        let (form, queued_at) = (Form::Coord, Timestamp(0));
        InboxDelivery { message, sent: Seq(sent), standing, form, calls, dead: false, task: None, queued_at }
    }

    #[test]
    fn what_is_new_fits_before_what_is_old() {
        let places = vec![
            place(1, Standing::Read, true),
            place(2, Standing::Read, false),
            place(3, Standing::Queued, false),
            place(4, Standing::Read, true),
            place(5, Standing::Queued, true),
            InboxDelivery { dead: true, ..place(6, Standing::Queued, true) },
        ];
        for (limit, wanted) in
            [(1, vec![5]), (2, vec![3, 5]), (3, vec![1, 3, 5]), (4, vec![1, 3, 4, 5]), (5, vec![1, 2, 3, 4, 5])]
        {
            let sent: Vec<u64> = chosen(places.clone(), limit).iter().map(|place| place.sent.0).collect();
            assert_eq!(sent, wanted);
        }
    }
}
