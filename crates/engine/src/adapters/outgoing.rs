//! Webhooks that go out: which messages another program wants, in which form, and how it can tell that they come from here.

use std::collections::BTreeMap;
use std::sync::Arc;

use rookery_core::Timestamp;
use rookery_store::Pending;
use serde_json::Value;

use super::hmac::{DELIVERY, SIGNATURE, seal};
use super::hook::{Incoming, Secret, adapter_name};
use super::mapping::Source;
use super::mapping::found;
use super::{Adapter, Heading, OutboundError, Passing};
use crate::endpoints::Http;
use crate::endpoints::answer::{Meaning, meaning};
use crate::message_view::MessageFilter;

/// A program that is sent messages as they come.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub name: String,
    pub url: String,
    pub secret: Secret,
    /// The types that it wants; all, if none is named.
    pub types: Vec<String>,
    pub filter: MessageFilter,
    /// What is sent of a message, by the names that it gets; all of it, if that is not said.
    pub body: Option<BTreeMap<String, Source>>,
    pub http: Arc<Http>,
}

impl Outgoing {
    /// The bytes that are sent for a message.
    fn bytes(&self, message: &Value) -> Vec<u8> {
        let nothing = |_: &str| None;
        let incoming = Incoming { body: &[], json: message, header: &nothing };
        let shaped = self.body.as_ref().map(|fields| Value::Object(found(fields, &incoming)));
        // A message is plain data: writing it to memory cannot fail.
        serde_json::to_vec(shaped.as_ref().unwrap_or(message)).unwrap_or_default()
    }

    /// What stands in `X-Rookery-Signature` for a body that is sent at this time.
    fn signature(&self, at: Timestamp, body: &[u8]) -> String {
        let seconds = at.0.div_euclid(1_000);
        format!("t={seconds},v1={}", seal(self.secret.bytes(), seconds, body))
    }

    fn headers(&self, passing: &Passing, body: &[u8]) -> Vec<(&'static str, String)> {
        // The ids that we give repeat if a store is taken back to a backup; together with the time they do not.
        let said = |field: &str| passing.message[field].as_str().unwrap_or_default();
        let id = format!("{}@{}", said("id"), said("ts"));
        vec![
            (SIGNATURE, self.signature(passing.at, body)),
            (DELIVERY, id),
            ("x-rookery-hook", self.name.clone()),
            ("x-rookery-seq", passing.seq.to_string()),
            ("x-rookery-attempt", passing.attempt.to_string()),
        ]
    }
}

impl Adapter for Outgoing {
    fn name(&self) -> String {
        adapter_name(&self.name)
    }

    fn can_handle(&self, message: &Heading<'_>) -> bool {
        let of_type = self.types.is_empty() || self.types.iter().any(|wanted| wanted == message.message_type());
        of_type && message.passes(&self.filter)
    }

    fn outbound<'a>(&'a self, passing: Passing) -> Pending<'a, Result<(), OutboundError>> {
        Box::pin(async move {
            let body = self.bytes(&passing.message);
            let headers = self.headers(&passing, &body);
            match meaning(self.http.send(&self.url, None, headers, body).await) {
                Meaning::Taken => Ok(()),
                Meaning::Never(error) => Err(OutboundError::Never(error)),
                Meaning::NotNow(error, asked) => Err(OutboundError::NotNow { error, asked }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rookery_core::agents::AgentLeft;
    use rookery_core::kernel::caller::{Actor, Auth};
    use rookery_core::traits::LogRow;
    use rookery_core::{AnyEvent, Seq};
    use serde_json::json;

    use super::*;
    use crate::adapters::Scheme;
    use crate::endpoints::EgressPolicy;
    use crate::message_view::Envelopes;

    fn hook(types: &[&str], run: Option<&str>) -> Outgoing {
        Outgoing {
            name: "ci".to_owned(),
            url: "http://ci/".to_owned(),
            secret: Secret::new("s").unwrap(),
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            filter: MessageFilter { run: run.map(Into::into), ..MessageFilter::default() },
            body: None,
            http: Arc::new(Http::new(EgressPolicy::anywhere(), Duration::from_secs(1)).unwrap()),
        }
    }

    #[test]
    fn it_is_sent_what_it_wants() {
        let row = LogRow {
            seq: Seq(1),
            at: Timestamp(0),
            run: Some("run_1".into()),
            thread: None,
            actor: Actor::System,
            auth: Auth::None,
            via: None,
            cause: None,
            part_index: 0,
            event: AnyEvent::new(AgentLeft { agent: "ken".into() }),
            body: None,
        };
        let envelopes = Envelopes::default();
        let wants = |types: &[&str], run| hook(types, run).can_handle(&Heading::new(&row, &envelopes));
        assert!(wants(&[], None) && wants(&["task.result", "x.agent.left"], Some("run_1")));
        assert!(!wants(&["task.result"], None) && !wants(&[], Some("run_2")));
    }

    #[test]
    fn what_goes_out_could_come_in() {
        let now = Timestamp(1_700_000_000_999);
        let signature = hook(&[], None).signature(now, b"{}");
        let header = |name: &str| (name == "x-rookery-signature").then(|| signature.clone());
        assert!(Scheme::Rookery.verify(&Secret::new("s").unwrap(), b"{}", &header, now).is_ok());
    }

    #[test]
    fn a_body_has_the_form_that_its_receiver_wants() {
        let message = json!({"id": "m1", "type": "task.error", "payload": {"message": "no", "retryable": true}});
        let sent = |hook: &Outgoing| serde_json::from_slice::<Value>(&hook.bytes(&message)).unwrap();
        let whole = hook(&[], None);
        assert_eq!(sent(&whole), message);
        let fields = [("text", "/payload/message"), ("again", "/payload/retryable"), ("none", "/nowhere"), ("k", "x")];
        let body = fields.map(|(name, source)| (name.to_owned(), Source::read(source)));
        let shaped = Outgoing { body: Some(BTreeMap::from(body)), ..whole };
        assert_eq!(sent(&shaped), json!({"text": "no", "again": true, "k": "x"}));
    }
}
