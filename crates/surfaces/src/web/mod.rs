//! What a browser sees: the web UI if this program carries it, else a plain page; the reference as a page; the licences.
//!
//! `ui` serves the built files, `pages` are those that are written here. Neither shows anything that a face would refuse:
//! the UI is the same files for everybody, and asks the other faces for the rest.

mod pages;
mod ui;

use axum::Router;
use axum::routing::get;

use crate::app::App;
use crate::rest::session;

/// An address, relative to the daemon's own, that signs the project's owner in to the UI; `None` without the UI.
pub fn launch_path(app: &App) -> Option<String> {
    rookery_ui_embed::is_built().then(|| session::launch_path(app, OWNER))
}

/// Whom the project's key file is for, as the command line shows it.
const OWNER: &str = "local";

pub fn routes() -> Router<App> {
    let router =
        Router::new().route("/docs", get(pages::docs)).route("/style.css", get(pages::style)).merge(ui::routes());
    if rookery_ui_embed::is_built() { router.route("/", get(ui::index)) } else { router.route("/", get(pages::index)) }
}
