//! Waking agents up: follows the log and reminds those that are connected to this node of what they have not read.
//!
//! An effect outside of the store that adds no facts: that a message was read is what ends it. It needs no duty, as every
//! node tells only those that listen there.

use rookery_core::Instance;
use rookery_core::messages::{MessageSent, MessagesAcked, MessagesRead, MessagesSuperseded};
use rookery_core::model::message::Form;
use rookery_core::model::message::Priority;
use rookery_core::model::message::{Recipients, Standing};
use rookery_core::{AgentId, EventRef, Key};
use std::time::Duration;

use rookery_core::traits::LogRow;

use crate::durations::RETRY_DELAY;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::messages::{Head, LARGEST_PAGE, Offer, Request};
use crate::projections::arrival::Arrival;
use crate::state::wake_hub::Wake;
use crate::subscribe::{SubscribeError, Subscription};

/// Runs until the log can be followed no more.
pub(crate) async fn run(engine: Engine) {
    loop {
        match engine.subscribe(None).await {
            Ok(subscription) => {
                // What was missed in between is found by looking.
                engine.wake_hub().look_everybody_up_again();
                if let Err(error) = follow(&engine, subscription).await {
                    tracing::debug!(%error, "wake-ups are interrupted");
                }
            }
            Err(error) => tracing::debug!(%error, "wake-ups cannot follow the log"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn follow(engine: &Engine, mut subscription: Subscription) -> Result<(), SubscribeError> {
    let _followed = engine.counts().follow();
    loop {
        look_up(engine).await;
        let next = ring(engine);
        let pause = next.map(|next| Duration::from_millis(next.saturating_sub(engine.clock().monotonic()).max(1)));
        tokio::select! {
            chunk = subscription.next() => chunk?.rows().iter().for_each(|row| note(engine, row)),
            () = engine.wake_hub().lookup_due() => {}
            () = sleep(pause) => {}
        }
    }
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// Tells everybody here what is due; when the next turn comes.
pub fn ring(engine: &Engine) -> Option<u64> {
    engine.wake_hub().ring(engine.clock().monotonic(), |agent| engine.roster().is_here(agent))
}

/// Takes note of what a fact means for those that listen here.
pub fn note(engine: &Engine, row: &LogRow) {
    let wakes = engine.wake_hub();
    engine.counts().note(&row.event);
    match row.event.typed() {
        EventRef::MessageSent(fact) if fact.letter.header.wakes && !fact.letter.header.is_notification() => {
            queued(engine, fact)
        }
        EventRef::MessageReleased(fact) if fact.header.wakes => wakes.look_everybody_up_again(),
        EventRef::MessageSent(fact) if !fact.letter.header.wakes => {}
        EventRef::MessageReleased(_) => {}
        EventRef::MessagesRead(MessagesRead(receipt)) => {
            wakes.read(&receipt.agent, receipt.messages.iter().chain(&receipt.broadcasts))
        }
        EventRef::MessagesAcked(MessagesAcked(receipt)) => {
            // The attempts stay known: a list of deliveries shows how many it took.
            wakes.read(&receipt.agent, receipt.messages.iter().chain(&receipt.broadcasts));
        }
        EventRef::MessagesSuperseded(MessagesSuperseded(receipt)) => {
            wakes.read(&receipt.agent, receipt.messages.iter().chain(&receipt.broadcasts));
            engine.attempt_log().forget(&receipt.agent, receipt.messages.iter().chain(&receipt.broadcasts));
        }
        EventRef::DeliveryAbandoned(fact) => engine.attempt_log().forget(&fact.agent, [&fact.message]),
        EventRef::LogRedacted(fact) => fact.cleared.iter().for_each(|cleared| forget(engine, &cleared.key)),
        EventRef::AgentReturned(fact) => wakes.look_up_again(&fact.agent),
        // Whatever else is put before agents is found by looking.
        _ => match Arrival::of(&row.event) {
            Arrival::Agents(agents) => agents.into_iter().for_each(|agent| wakes.look_up_again(agent)),
            Arrival::Everyone => wakes.look_everybody_up_again(),
            Arrival::Nobody => {}
        },
    }
}

/// A wake-up shows none of the words that were redacted.
fn forget(engine: &Engine, cleared: &Key) {
    if let Key::Message(message) = cleared {
        engine.wake_hub().forget(message);
    }
}

fn queued(engine: &Engine, fact: &MessageSent) {
    let now = engine.clock().monotonic();
    let add = |agent: &AgentId| engine.wake_hub().add(Wake::of(agent, &fact.letter, fact.at), now);
    match &fact.letter.header.to {
        Recipients::Agents(agents) => agents.iter().for_each(add),
        Recipients::Everyone => {
            let heard = engine.wake_hub().heard();
            heard.iter().filter(|agent| **agent != fact.letter.header.from).for_each(add);
        }
    }
}

/// Reads what waits for those that have to be looked up.
pub async fn look_up(engine: &Engine) {
    for agent in engine.wake_hub().to_look_up() {
        match waiting(engine, &agent).await {
            Ok(waiting) => engine.wake_hub().found(&agent, waiting, engine.clock().monotonic()),
            Err(error) => {
                tracing::debug!(%error, %agent, "what waits for an agent could not be read");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

async fn waiting(engine: &Engine, agent: &AgentId) -> Result<Vec<Wake>, EngineError> {
    let pending = engine.inbox().list_all(agent, Some(LARGEST_PAGE)).await?.pending;
    let unseen = pending.iter().filter(|pending| pending.standing == Standing::Queued);
    let waking = unseen.filter(|pending| pending.message.letter.header.wakes);
    let said = waking.map(|pending| Wake::of(agent, &pending.message.letter, pending.message.at));
    let mail = engine.inbox().unseen_headers(agent).await?;
    Ok(said.chain(mail.iter().filter_map(|head| wake_of_mail(agent, head))).collect())
}

/// A message of the Clutch protocol. A request for what is not given to the agent any more is none to wake it for.
fn wake_of_mail(agent: &AgentId, mail: &Head) -> Option<Wake> {
    let excerpt = match (&mail.request, &mail.task) {
        (Some(Request { offer: Offer::Taken | Offer::Over, .. }), _) => return None,
        (Some(request), _) => format!("task {} is given to you: claim it", request.task),
        (None, Some(task)) => format!("{} about task {task}", mail.message_type),
        (None, None) => mail.message_type.clone(),
    };
    Some(Wake {
        agent: agent.clone(),
        message: mail.message.clone(),
        form: Form::Envelope,
        from: Instance::of(agent).calls(&mail.from),
        instance: Instance::of(agent),
        excerpt,
        priority: Priority::Normal,
        at: mail.at,
        attempt: 0,
    })
}
