//! Instances: the name that the team context has for a run with one thread, and the names of agents inside of one.
//!
//! `reviewer@pr-123` is `reviewer` in the instance `pr-123`. `reviewer@default` is a member of the instance `default`, whose run and
//! thread are those of the project. A bare name is the id of a standalone agent: it uses the context of `default`, where mentions of
//! its name reach a member of that name first. The settings of an instance's context are in `model`.

use std::fmt;
use std::sync::Arc;

use super::caller::Actor;
use super::code::Code;
use super::id::{AgentId, RunId, ThreadId};
use super::limit;
use super::rejection::Rejection;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Instance(Arc<str>);

const DEFAULT: &str = "default";

impl Instance {
    pub fn new(name: impl Into<Arc<str>>) -> Instance {
        Instance(name.into())
    }

    /// The instance that an agent is in, by its id.
    pub fn of(agent: &AgentId) -> Instance {
        split(agent.as_str()).map_or_else(Instance::default, |(_, instance)| Instance::new(instance))
    }

    pub fn of_thread(thread: &ThreadId) -> Instance {
        Instance::new(thread.as_str().strip_prefix("thr_").unwrap_or(thread.as_str()))
    }

    pub fn of_run(run: &RunId) -> Instance {
        Instance::new(run.as_str().strip_prefix("run_").unwrap_or(run.as_str()))
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    pub fn run(&self) -> RunId {
        RunId::new(format!("run_{}", self.0))
    }

    pub fn thread(&self) -> ThreadId {
        ThreadId::new(format!("thr_{}", self.0))
    }

    /// The id of the agent with a name in this instance.
    pub fn agent(&self, name: &str) -> AgentId {
        AgentId::new(format!("{name}@{}", self.0))
    }

    /// The id that a name in this instance stands for: a bare one is that of a member.
    pub fn member(&self, name: &str) -> AgentId {
        if split(name).is_none() && !Actor::is_reserved(name) { self.agent(name) } else { AgentId::from(name) }
    }

    /// The id of a caller that states its name in this instance: as [`Instance::member`], but a bare name in `default` is that of a
    /// standalone agent.
    pub fn caller(&self, name: &str) -> AgentId {
        if self.name() == DEFAULT { AgentId::from(name) } else { self.member(name) }
    }

    /// What an author is called inside of this instance: by its bare name if it is in it, else so that `@` and this name
    /// reach it.
    pub fn calls(&self, author: &AgentId) -> String {
        let home = Instance::of(author);
        match home.name() {
            _ if home == *self => bare(author).to_owned(),
            DEFAULT if !Actor::is_reserved(author.as_str()) => format!("{}@{DEFAULT}", bare(author)),
            _ => author.to_string(),
        }
    }
}

impl Default for Instance {
    fn default() -> Instance {
        Instance::new(DEFAULT)
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An agent's name without its instance.
pub fn bare(agent: &AgentId) -> &str {
    split(agent.as_str()).map_or(agent.as_str(), |(name, _)| name)
}

/// The standalone agent that a reference to a member of `default` reaches while there is no such member.
pub fn standalone_of(member: &AgentId) -> Option<AgentId> {
    split(member.as_str()).filter(|(_, instance)| *instance == DEFAULT).map(|(name, _)| AgentId::from(name))
}

/// The member of `default` that mentions of a standalone agent's name reach first.
pub fn namesake(agent: &AgentId) -> Option<AgentId> {
    let is_standalone = split(agent.as_str()).is_none() && !Actor::is_reserved(agent.as_str());
    is_standalone.then(|| Instance::default().agent(agent.as_str()))
}

/// Whether an agent can be called so: `name`, or `name@instance`. Whether the name is taken is for others to say.
pub fn check_name(field: &'static str, id: &str) -> Result<(), Rejection> {
    let bad = |what: &str| Err(Rejection::new(Code::Invalid, format!("{field} {what}")));
    limit::name(field, id, limit::AGENT_ID_BYTES)
        .and_then(|()| match id.matches('@').count() {
            0 => Ok(()),
            1 if split(id).is_some() => Ok(()),
            1 => bad("must have something before and after its '@'"),
            _ => bad("must not contain more than one '@'"),
        })
        .and_then(|()| if id.contains(is_invisible) { bad("must not contain invisible characters") } else { Ok(()) })
        .map_err(|refusal| {
            refusal.hint(format!(
                "an agent is called 'name' or 'name@instance', in up to {} bytes without spaces",
                limit::AGENT_ID_BYTES
            ))
        })
}

/// Marks that make two names look like one: of no width, or turning the direction of what follows.
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

fn split(id: &str) -> Option<(&str, &str)> {
    id.rsplit_once('@').filter(|(name, instance)| !name.is_empty() && !instance.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_name_and_instance() {
        for (id, name, instance) in [
            ("reviewer", "reviewer", "default"),
            ("reviewer@default", "reviewer", "default"),
            ("reviewer@pr-123", "reviewer", "pr-123"),
        ] {
            let agent = AgentId::from(id);
            assert_eq!((bare(&agent), Instance::of(&agent).name()), (name, instance), "{id}");
            assert_eq!(Instance::of(&agent).agent(name).as_str(), format!("{name}@{instance}"), "{id}");
        }
    }

    #[test]
    fn standalone_agent_and_member_of_default_are_two_agents() {
        let (alone, member, elsewhere) = ("coder".into(), "coder@default".into(), "coder@pr-1".into());
        assert_eq!((namesake(&alone), standalone_of(&member)), (Some("coder@default".into()), Some("coder".into())));
        for other in [&member, &elsewhere, &"person:anna".into(), &"system".into()] {
            assert_eq!(namesake(other), None, "{other}");
        }
        assert_eq!((standalone_of(&alone), standalone_of(&elsewhere)), (None, None));
    }

    #[test]
    fn an_agent_is_called_by_a_name_and_maybe_its_instance() {
        let code = |id: &str| check_name("id", id).map_err(|refusal| refusal.code);
        for good in ["a", "reviewer@pr-123", "claude/1", "größe", "a.b:c", &"x".repeat(limit::AGENT_ID_BYTES)] {
            assert_eq!(code(good), Ok(()), "{good:?}");
        }
        for bad in
            ["", "@", "@x", "x@", "a@b@c", "a@@b", " ", "a b", "a\u{a0}b", "a\n", "a\0b", "a\u{200b}", "\u{202e}a"]
        {
            assert_eq!(code(bad), Err(Code::Invalid), "{bad:?}");
        }
        assert_eq!(code(&"x".repeat(limit::AGENT_ID_BYTES + 1)), Err(Code::TooLarge));
        let refusal = check_name("id", "x@").unwrap_err();
        assert_eq!(refusal.message, "id must have something before and after its '@'");
        assert!(refusal.hint.unwrap().contains("'name@instance', in up to 128 bytes"));
    }

    #[test]
    fn bare_name_is_that_of_member_and_of_standalone_caller_in_default() {
        let (own, there) = (Instance::default(), Instance::new("pr-1"));
        for (name, member, in_default, caller) in [
            ("coder", "coder@pr-1", "coder@default", "coder"),
            ("coder@pr-1", "coder@pr-1", "coder@pr-1", "coder@pr-1"),
            ("coder@default", "coder@default", "coder@default", "coder@default"),
            ("person:anna", "person:anna", "person:anna", "person:anna"),
        ] {
            assert_eq!((there.member(name), there.caller(name)), (member.into(), member.into()), "{name}");
            assert_eq!((own.member(name), own.caller(name)), (in_default.into(), caller.into()), "{name}");
        }
    }

    #[test]
    fn the_default_instance_is_the_projects_own_run_and_thread() {
        let instance = Instance::default();
        assert_eq!((instance.run(), instance.thread()), (RunId::project_default(), ThreadId::project_default()));
        let other = Instance::new("pr-1");
        assert_eq!((other.run().as_str(), other.thread().as_str()), ("run_pr-1", "thr_pr-1"));
        assert_eq!(
            (Instance::of_thread(&other.thread()), Instance::of_run(&other.run())),
            (other.clone(), other.clone())
        );
        assert_eq!((other.calls(&"a@pr-1".into()), other.calls(&"a".into())), ("a".to_owned(), "a@default".to_owned()));
        assert_eq!(
            (instance.calls(&"a@pr-1".into()), instance.calls(&"a".into()), instance.calls(&"a@default".into())),
            ("a@pr-1".to_owned(), "a".to_owned(), "a".to_owned())
        );
        assert_eq!(other.calls(&"a@default".into()), "a@default");
        assert_eq!(
            (other.calls(&"system".into()), other.calls(&"person:ann".into())),
            ("system".into(), "person:ann".into())
        );
    }
}
