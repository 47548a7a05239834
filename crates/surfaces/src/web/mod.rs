//! What a browser sees: the web UI if this program carries it, else a plain page; the reference as a page; the licences.
//!
//! `ui` serves the built files, `pages` are those that are written here. Neither shows anything that a face would refuse:
//! the UI is the same files for everybody, and asks the other faces for the rest.

mod pages;
mod ui;

use axum::Router;
use axum::routing::get;

use crate::app::App;

pub fn routes() -> Router<App> {
    let router =
        Router::new().route("/docs", get(pages::docs)).route("/style.css", get(pages::style)).merge(ui::routes());
    if rookery_ui_embed::is_built() { router.route("/", get(ui::index)) } else { router.route("/", get(pages::index)) }
}
