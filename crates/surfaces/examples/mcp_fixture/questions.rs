//! What a call needs from its client before it can be answered. The questions are the result of the call; the client
//! repeats the call with its answers, as often as there is something left to ask.

use std::collections::BTreeMap;
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    ClientCapabilities, CreateMessageResult, ElicitResult, ElicitationAction, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, ListRootsResult, RequestStateCodec, RequestStateError, SealOptions,
};
use rookery_engine::{Ids, RandomIds};
use serde_json::{Value, json};

use crate::wire::{failed, text, wire};

/// How long a client may take to answer a round whose answers are kept in the state it carries.
const STATE_LIVES: Duration = Duration::from_secs(600);

/// What was said, by the question's key.
type Answers = BTreeMap<String, String>;

enum Question {
    /// A form with one field that must be filled in.
    Form {
        message: &'static str,
        field: &'static str,
        kind: &'static str,
    },
    Sampling {
        prompt: &'static str,
        most_tokens: u32,
    },
    Roots,
}

/// Where the answers of earlier rounds are.
enum Memory {
    /// There is one round only.
    Nowhere,
    /// In the state that the client carries, sealed.
    State,
}

/// What happens to a question that the client has not said it can answer.
enum Unable {
    Refused,
    LeftOut,
}

pub struct Script {
    rounds: Vec<Vec<(&'static str, Question)>>,
    memory: Memory,
    unable: Unable,
    close: fn(&Answers) -> String,
}

/// The questions that a tool or a prompt asks, if it asks any.
pub fn script(name: &str) -> Option<Script> {
    let name_form = |message| Question::Form { message, field: "name", kind: "string" };
    let colour_form = |message| Question::Form { message, field: "color", kind: "string" };
    let confirm = || Question::Form { message: "Please confirm", field: "ok", kind: "boolean" };
    let capital = || Question::Sampling { prompt: "What is the capital of France?", most_tokens: 100 };
    let one = |key, question| vec![vec![(key, question)]];
    let rounds = match name {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            one("user_name", name_form("What is your name?"))
        }
        "test_input_required_result_sampling" | "test_missing_capability" => one("capital_question", capital()),
        "test_input_required_result_list_roots" => one("client_roots", Question::Roots),
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            one("confirm", confirm())
        }
        "test_input_required_result_multiple_inputs" => vec![vec![
            ("user_name", name_form("What is your name?")),
            ("greeting", Question::Sampling { prompt: "Generate a greeting", most_tokens: 50 }),
            ("client_roots", Question::Roots),
        ]],
        "test_input_required_result_multi_round" => vec![
            vec![("step1", name_form("Step 1: What is your name?"))],
            vec![("step2", colour_form("Step 2: What is your favorite color?"))],
        ],
        "test_input_required_result_capabilities" => {
            vec![vec![("user_name", name_form("What is your name?")), ("capital_question", capital())]]
        }
        "test_input_required_result_prompt" => {
            let message = "What context should the prompt use?";
            one("user_context", Question::Form { message, field: "context", kind: "string" })
        }
        _ => return None,
    };
    Some(Script { rounds, memory: memory(name), unable: unable(name), close: close(name) })
}

fn memory(name: &str) -> Memory {
    match name {
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state"
        | "test_input_required_result_multiple_inputs"
        | "test_input_required_result_multi_round" => Memory::State,
        _ => Memory::Nowhere,
    }
}

fn unable(name: &str) -> Unable {
    match name {
        "test_input_required_result_capabilities" => Unable::LeftOut,
        _ => Unable::Refused,
    }
}

fn close(name: &str) -> fn(&Answers) -> String {
    match name {
        "test_input_required_result_elicitation" => |said| format!("Hello, {}!", said["user_name"]),
        "test_input_required_result_request_state" => |said| format!("state-ok, confirmed: {}", said["confirm"]),
        _ => |said| said.iter().map(|(key, said)| format!("{key}: {said}")).collect::<Vec<_>>().join("; "),
    }
}

/// One call, as it came in: the first of its kind, or repeated with answers.
pub struct Asked {
    pub name: String,
    pub arguments: Value,
    pub responses: Option<InputResponses>,
    pub state: Option<String>,
    pub client: ClientCapabilities,
}

pub enum Outcome {
    /// Something is left to ask.
    Ask(InputRequiredResult),
    /// Everything is known, and this comes of it.
    Answered(String),
}

/// Keeps what was said from one round to the next without keeping anything here.
pub struct Interviewer {
    seal: RequestStateCodec,
}

impl Interviewer {
    pub fn new() -> Result<Interviewer, RequestStateError> {
        // State of an earlier process is not ours: whoever carries it is told to begin again.
        let secret = [RandomIds.mint("a"), RandomIds.mint("b"), RandomIds.mint("c")].concat();
        Ok(Interviewer { seal: RequestStateCodec::try_new(secret)? })
    }

    pub fn proceed(&self, script: &Script, asked: &Asked) -> Result<Outcome, ErrorData> {
        let mut said = Answers::new();
        let mut responses = asked.responses.clone().unwrap_or_default();
        match (&script.memory, &asked.state) {
            (Memory::State, Some(state)) => said = self.open(state, asked)?,
            // Without its state nothing says what was asked, so nothing was answered.
            (Memory::State, None) => responses.clear(),
            (Memory::Nowhere, _) => {}
        }
        for round in &script.rounds {
            let mut open = vec![];
            for (key, question) in round {
                match responses.get(*key) {
                    _ if said.contains_key(*key) => {}
                    Some(response) => drop(said.insert((*key).to_owned(), question.read(response)?)),
                    None => open.push((*key, question)),
                }
            }
            let open = answerable(open, script, &asked.client)?;
            if !open.is_empty() {
                return Ok(Outcome::Ask(self.ask(script, open, &said, asked)?));
            }
        }
        Ok(Outcome::Answered((script.close)(&said)))
    }

    fn ask(
        &self,
        script: &Script,
        open: Vec<(&str, &Question)>,
        said: &Answers,
        asked: &Asked,
    ) -> Result<InputRequiredResult, ErrorData> {
        let requests: Result<InputRequests, ErrorData> =
            open.into_iter().map(|(key, question)| Ok((key.to_owned(), question.request()?))).collect();
        let state = match script.memory {
            Memory::Nowhere => None,
            Memory::State => {
                let of_this_call = asked.identity();
                let options = SealOptions::new().associated_data(of_this_call.as_bytes()).ttl(STATE_LIVES);
                Some(self.seal.seal_json_with(said, &options).map_err(failed)?)
            }
        };
        Ok(InputRequiredResult::new(Some(requests?), state))
    }

    /// What was said before, if the state is ours, unchanged, in time and of the same call.
    fn open(&self, state: &str, asked: &Asked) -> Result<Answers, ErrorData> {
        self.seal
            .open_json_with(state, asked.identity().as_bytes())
            .map_err(|error| ErrorData::invalid_params(format!("{error}: call again without requestState"), None))
    }
}

impl Asked {
    /// What stays the same in all rounds of one call.
    fn identity(&self) -> String {
        format!("{} {}", self.name, self.arguments)
    }
}

/// The questions that the client can answer.
fn answerable<'a>(
    open: Vec<(&'a str, &'a Question)>,
    script: &Script,
    client: &ClientCapabilities,
) -> Result<Vec<(&'a str, &'a Question)>, ErrorData> {
    let can: Value = serde_json::to_value(client).map_err(failed)?;
    let (able, unable): (Vec<_>, Vec<_>) =
        open.into_iter().partition(|(_, question)| can.get(question.capability()).is_some());
    if unable.is_empty() || matches!(script.unable, Unable::LeftOut) {
        return Ok(able);
    }
    let needed: serde_json::Map<String, Value> =
        unable.iter().map(|(_, question)| (question.capability().to_owned(), json!({}))).collect();
    Err(ErrorData::missing_required_client_capability(wire(needed.into())?))
}

impl Question {
    /// What a client declares that can answer it.
    fn capability(&self) -> &'static str {
        match self {
            Question::Form { .. } => "elicitation",
            Question::Sampling { .. } => "sampling",
            Question::Roots => "roots",
        }
    }

    fn request(&self) -> Result<InputRequest, ErrorData> {
        wire(match self {
            Question::Form { message, field, kind } => {
                let schema = json!({"type": "object", "properties": {*field: {"type": kind}}, "required": [field]});
                let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
                json!({"method": "elicitation/create", "params": params})
            }
            Question::Sampling { prompt, most_tokens } => {
                let message = json!({"role": "user", "content": text(*prompt)});
                json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": most_tokens}})
            }
            Question::Roots => json!({"method": "roots/list", "params": {}}),
        })
    }

    /// What an answer says; one that does not fit the question is an error of the client.
    fn read(&self, response: &Value) -> Result<String, ErrorData> {
        match self {
            Question::Form { field, kind, .. } => {
                let answer: ElicitResult = fitting(response)?;
                if answer.action != ElicitationAction::Accept {
                    return Ok("(no answer)".to_owned());
                }
                match &answer.content.unwrap_or_default()[*field] {
                    Value::String(said) if *kind == "string" => Ok(said.clone()),
                    Value::Bool(said) if *kind == "boolean" => Ok(said.to_string()),
                    _ => Err(misfit(format!("'{field}' must be a {kind}"))),
                }
            }
            Question::Sampling { .. } => {
                let answer: CreateMessageResult = fitting(response)?;
                serde_json::to_string(&answer.message.content).map_err(failed)
            }
            Question::Roots => {
                let answer: ListRootsResult = fitting(response)?;
                Ok(answer.roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

fn fitting<T: serde::de::DeserializeOwned>(response: &Value) -> Result<T, ErrorData> {
    serde_json::from_value(response.clone()).map_err(|error| misfit(error.to_string()))
}

fn misfit(why: String) -> ErrorData {
    ErrorData::invalid_params(format!("an answer does not fit its question: {why}"), None)
}
