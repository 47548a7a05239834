//! Webhooks that go out: which messages another program wants, and how it can tell that they come from here.

use rookery_core::Timestamp;
use rookery_core::log::LogRow;

use super::{Secret, seal};
use crate::clutch::{Envelopes, MessageFilter};

/// A program that is sent messages as they come.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub name: String,
    pub url: String,
    pub secret: Secret,
    /// The types that it wants; all, if none is named.
    pub types: Vec<String>,
    pub filter: MessageFilter,
}

impl Outgoing {
    /// Whether it wants what a row is shown as.
    pub fn wants(&self, row: &LogRow, envelopes: &Envelopes) -> bool {
        let of_type = self.types.is_empty() || self.types.iter().any(|wanted| wanted == envelopes.type_of(row));
        of_type && self.filter.takes(row, envelopes)
    }

    /// What stands in `X-Rookery-Signature` for a body that is sent at this time.
    pub fn signature(&self, at: Timestamp, body: &[u8]) -> String {
        let seconds = at.0.div_euclid(1_000);
        format!("t={seconds},v1={}", seal(self.secret.bytes(), seconds, body))
    }
}

#[cfg(test)]
mod tests {
    use rookery_core::actor::{Actor, Auth};
    use rookery_core::agent::AgentLeft;
    use rookery_core::{Fact, Seq};

    use super::*;
    use crate::hooks::Scheme;

    fn hook(types: &[&str], run: Option<&str>) -> Outgoing {
        Outgoing {
            name: "ci".to_owned(),
            url: "http://ci/".to_owned(),
            secret: Secret::new("s").unwrap(),
            types: types.iter().map(|name| (*name).to_owned()).collect(),
            filter: MessageFilter { run: run.map(Into::into), ..MessageFilter::default() },
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
            fact: Fact::AgentLeft(AgentLeft { agent: "ken".into() }),
            body: None,
        };
        let wants = |types: &[&str], run| hook(types, run).wants(&row, &Envelopes::default());
        assert!(wants(&[], None) && wants(&["task.result", "agent.left"], Some("run_1")));
        assert!(!wants(&["task.result"], None) && !wants(&[], Some("run_2")));
    }

    #[test]
    fn what_goes_out_could_come_in() {
        let now = Timestamp(1_700_000_000_999);
        let signature = hook(&[], None).signature(now, b"{}");
        let header = |name: &str| (name == "x-rookery-signature").then(|| signature.clone());
        assert!(Scheme::Rookery.verify(&Secret::new("s").unwrap(), b"{}", &header, now).is_ok());
    }
}
