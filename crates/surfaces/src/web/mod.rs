//! What a browser sees: the web UI if this program carries it, else a plain page; the reference as a page; the licences.
//!
//! `ui` serves the built files, `pages` are those that are written here. Neither shows anything that a face would refuse:
//! the UI is the same files for everybody, and asks the other faces for the rest.

mod pages;
mod ui;

use axum::Router;
use axum::routing::get;

use crate::http::App;
use crate::rest::sign_in;

/// A sign-in link for the project's owner, relative to the daemon's address; `None` without the UI.
pub fn sign_in_path(app: &App) -> Option<String> {
    rookery_ui_embed::is_built().then(|| sign_in::sign_in_path(app, OWNER))
}

/// Whom the project's key file is for, as the command line shows it.
const OWNER: &str = "local";

/// Whether a path leads to a page that is the same for everyone, as opposed to data.
pub(crate) fn is_page(path: &str) -> bool {
    let is_index = path == "/" && rookery_ui_embed::is_built();
    is_index || matches!(path, "/ui" | "/docs" | "/licenses") || path.starts_with("/ui/")
}

pub fn routes() -> Router<App> {
    let router =
        Router::new().route("/docs", get(pages::docs)).route("/style.css", get(pages::style)).merge(ui::routes());
    if rookery_ui_embed::is_built() { router.route("/", get(ui::index)) } else { router.route("/", get(pages::index)) }
}
