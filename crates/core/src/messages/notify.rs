//! Notifications: the message that follows an event about a task or a handoff, for the agents that the event concerns.
//!
//! An event declares whom it concerns ([`Event::notification_rule`](crate::traits::Event::notification_rule)). Its notification
//! directly follows it in the log and contains none of its texts, so that redacting the event is enough.

use std::collections::BTreeSet;

use super::{MessageSent, MessagesSuperseded, Receipt};
use crate::kernel::event_id;
use crate::kernel::id::{AgentId, Seq, TaskId, ThreadId};
use crate::model::message::{Form, Header, Letter, Priority, Recipients};
use crate::model::notification::{IfAnnounced, NotificationRule, OpenOffer};
use crate::model::task::Task;
use crate::model::{Key, ReadItem, ReadSet, Undecided, View};
use crate::traits::{AnyEvent, DecisionContext};

/// The events of a command, each followed by its notification and by the end of the offer that it withdraws.
///
/// The caller is not notified of its own act. `announced` is the task that the request's own message is about: its recipients
/// learn of the act by that message.
pub(crate) fn with_notifications(
    cx: &DecisionContext<'_>,
    announced: Option<&TaskId>,
    events: Vec<AnyEvent>,
) -> Result<Vec<AnyEvent>, Undecided> {
    if events.iter().all(|event| event.notification_rule().is_none()) {
        return Ok(events);
    }
    load(cx.view, &events)?;
    let mut appended = Vec::with_capacity(events.len());
    let mut settled = BTreeSet::new();
    for event in events {
        let rule = event.notification_rule();
        let task = match event.task().filter(|_| rule.is_some()) {
            Some(task) => cx.view.find_task(task)?,
            None => None,
        };
        // A task that the same command creates concerns no agent yet.
        let (Some(rule), Some(task)) = (rule, task) else {
            appended.push(event);
            continue;
        };
        let is_announced = announced == Some(&task.id) && rule.if_announced == IfAnnounced::Skip;
        let mut recipients = if is_announced { vec![] } else { rule.audience.recipients(cx.view, task)? };
        recipients.retain(|agent| cx.caller.actor.agent() != Some(agent));
        let seq = Seq(cx.next.0 + appended.len() as u64);
        let notification = (!recipients.is_empty()).then(|| notification(cx, &event, seq, task, recipients));
        appended.push(event);
        appended.extend(notification.map(AnyEvent::new));
        if rule.open_offer != OpenOffer::Kept && settled.insert(task.id.clone()) {
            appended.extend(withdraw_offer(cx.view, task, &rule)?.map(AnyEvent::new));
        }
    }
    Ok(appended)
}

/// Loads everything at once, because many tasks may end together.
fn load(view: &View, events: &[AnyEvent]) -> Result<(), Undecided> {
    let notifying = || events.iter().filter_map(|event| Some((event.task()?, event.notification_rule()?)));
    view.ensure_loaded(notifying().map(|(task, _)| Key::Task(task.clone()).into()).collect())?;
    let mut read_set: ReadSet = Vec::new();
    for (task, rule) in notifying() {
        if let Some(task) = view.find_task(task)? {
            read_set.extend(rule.audience.agents(task).into_iter().map(|agent| ReadItem::from(Key::Agent(agent))));
        }
    }
    view.ensure_loaded(read_set)
}

fn notification(
    cx: &DecisionContext<'_>,
    event: &AnyEvent,
    seq: Seq,
    task: &Task,
    recipients: Vec<AgentId>,
) -> MessageSent {
    let from = AgentId::new(cx.caller.actor.to_string());
    let header = Header {
        message: event_id::notification_of(seq, cx.now),
        run: task.run.clone(),
        thread: task.origin.thread.clone().unwrap_or_else(ThreadId::project_default),
        task: Some(task.id.clone()),
        form: Form::Envelope,
        name: from.to_string(),
        from,
        topic: None,
        announces: Some(event.kind().to_owned()),
        mentions: vec![],
        to: Recipients::Agents(recipients),
        unknown: vec![],
        people: vec![],
        awaits_millis: None,
        requires_ack: true,
        priority: Priority::Normal,
        wakes: true,
        lasts_millis: None,
        cause: None,
        reply_to: None,
        root: None,
        hops: 0,
    };
    MessageSent { letter: Letter { header, subject: None, text: String::new() }, at: cx.now, due: None }
}

/// Supersedes the delivery of the task's open offer, if the event withdraws that and the agent did not acknowledge it.
fn withdraw_offer(view: &View, task: &Task, rule: &NotificationRule) -> Result<Option<MessagesSuperseded>, Undecided> {
    let (Some(message), Some(agent)) = (&task.routing.offered_in, &task.reserved_for) else { return Ok(None) };
    if rule.open_offer == OpenOffer::TakenBy(agent.clone()) {
        return Ok(None);
    }
    let is_open = view.delivery(message, agent)?.is_some_and(|delivery| !delivery.is_settled());
    Ok(is_open.then(|| {
        MessagesSuperseded(Receipt { agent: agent.clone(), messages: vec![message.clone()], broadcasts: vec![] })
    }))
}

#[cfg(test)]
mod tests;
