//! The answer of a surface, in terms that all surfaces share.

use serde_json::Value;

/// The answer to an act.
#[derive(Clone, Debug)]
pub struct Answer {
    /// How this surface expresses it: an HTTP status, a tool error, an exit code.
    pub form: String,
    pub rejection: Option<Rejection>,
}

/// A rejection, as far as a program can rely on it.
#[derive(Clone, Debug)]
pub struct Rejection {
    /// Absent where the surface has its own form, such as `success: false`.
    pub code: Option<String>,
    /// The holder, if a field names it.
    pub holder: Option<String>,
    /// The sentence for people; only searched for names.
    pub text: String,
}

impl Answer {
    pub fn done(form: impl Into<String>) -> Answer {
        Answer { form: form.into(), rejection: None }
    }

    /// A rejection whose code, holder and text are in `body`.
    pub fn rejected(form: impl Into<String>, body: &Value) -> Answer {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let holder_fields = ["/details/holder", "/detail/holder", "/holder", "/owner", "/already_claimed_by"];
        let text_fields = ["/message", "/error", "/reason"];
        let first = |fields: &[&str]| fields.iter().find_map(|field| body.pointer(field).and_then(text));
        Answer {
            form: form.into(),
            rejection: Some(Rejection {
                code: text(&body["code"]),
                holder: first(&holder_fields),
                text: first(&text_fields).unwrap_or_default(),
            }),
        }
    }
}

/// The flag by which a successful call says that it did nothing, such as `success: false`.
pub fn refusal_flag(body: &Value) -> Option<&'static str> {
    ["success", "granted", "released"].into_iter().find(|flag| body[*flag] == Value::Bool(false))
}
