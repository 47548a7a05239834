//! Pages without a script: what a browser sees if the web UI is not built in, and the reference.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use rookery_core::Row;
use rookery_engine::RowVisitor;

use crate::http::App;
use crate::http::HttpError;
use crate::http::extract::Call;
use crate::http::openapi::operations;
use crate::http::shared_answers::lock;
use crate::openapi;

/// No script at all, styles only our own.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const WITHOUT_UI: &str = "The daemon runs, but this program was built without its web UI. With Node 20.19 or newer, \
    <code>cargo xtask up</code> builds both.";

/// Where the UI would be.
pub fn without_ui() -> Response {
    let body = format!("<h1>Rookery</h1><p>{WITHOUT_UI}</p><p><a href=\"/\">What is going on</a>, without it.</p>");
    page("Rookery", &body)
}

pub async fn index(State(app): State<App>, call: Call) -> Result<Response, HttpError> {
    call.reader().await?;
    let engine = app.engine();
    let overview = Arc::new(Mutex::new(Overview::default()));
    let head = engine.query().visit_state(overview.clone()).await?;
    let Overview { agents, agents_count, open, held } = std::mem::take(&mut *lock(&overview));
    let body = format!(
        "<h1>{project}</h1><p>{agents_count} agents, {open} open tasks, {held} claimed paths, {events} events.</p>\
         <table><thead><tr><th>agent</th><th>tool</th><th>status</th><th>task</th></tr></thead><tbody>{agents}</tbody></table>\
         <p>{WITHOUT_UI}</p><p>The <a href=\"/docs\">reference</a> lists every call; <a href=\"/state\">/state</a> is everything as JSON; \
         <code>rookery log -f</code> follows what happens.</p>",
        project = escape(&engine.config().project),
        events = head.head,
    );
    Ok(page("Rookery", &body))
}

/// The state as the page shows it.
#[derive(Debug, Default)]
struct Overview {
    /// Rows of the table.
    agents: String,
    agents_count: usize,
    open: usize,
    held: usize,
}

impl RowVisitor for Overview {
    fn begin(&mut self) {
        *self = Overview::default();
    }

    fn visit(&mut self, row: Row) {
        match row {
            Row::Agent(agent) if !agent.has_left() => {
                self.agents_count += 1;
                self.agents += &format!(
                    "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                    escape(agent.id.as_str()),
                    escape(&agent.profile.tool),
                    agent.status.as_str(),
                    escape(agent.current_task.as_ref().map_or("", |task| task.as_str()))
                );
            }
            Row::Task(task) => self.open += usize::from(task.state.is_open()),
            Row::File(file) => self.held += usize::from(file.claim.is_some()),
            _ => {}
        }
    }
}

pub async fn docs() -> Response {
    let api = openapi::document();
    let mut rows = String::new();
    for (path, item) in &api.paths.paths {
        for (method, operation) in operations(item) {
            let summary = operation.summary.clone().or(operation.description.clone()).unwrap_or_default();
            let codes: Vec<&str> = operation.responses.responses.keys().map(String::as_str).collect();
            rows += &format!(
                "<tr><td><code>{method} {}</code></td><td>{}</td><td>{}</td></tr>",
                escape(path),
                escape(&summary),
                codes.join(" ")
            );
        }
    }
    let body = format!(
        "<h1>Reference</h1><p>As a machine-readable file: <a href=\"/openapi.json\">OpenAPI 3.1</a>.</p>\
         <table><thead><tr><th>call</th><th>does</th><th>answers</th></tr></thead><tbody>{rows}</tbody></table>"
    );
    page("Rookery reference", &body)
}

pub async fn style() -> Response {
    const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
        color:#1c1917;background:#fafaf9}table{border-collapse:collapse;width:100%}th,td{text-align:left;\
        padding:.35rem .75rem .35rem 0;border-bottom:1px solid #d6d3d1;vertical-align:top}code{font-size:.95em}\
        @media(prefers-color-scheme:dark){body{color:#e7e5e4;background:#1c1917}th,td{border-color:#44403c}a{color:#93c5fd}}";
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

fn page(title: &str, body: &str) -> Response {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title><link rel=\"stylesheet\" href=\"/style.css\"><body>{body}</body></html>"
    );
    ([(header::CONTENT_SECURITY_POLICY, POLICY), (header::REFERRER_POLICY, "no-referrer")], Html(html)).into_response()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}
