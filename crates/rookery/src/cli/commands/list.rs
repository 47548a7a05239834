//! `rookery list`

use std::path::Path;

use rookery_client::teams::{Member, Mode, Team};
use serde_json::{Value, json};

use crate::cli::context::Context;
use crate::cli::output::{Cell, Table, TextStyle};
use crate::cli::roster::Roster;
use crate::cli::runners::Runners;

/// List the agents that run, those of workflows and those that stand alone
///
/// `rookery agents` lists all that take part, also those that programs of their own run.
#[derive(Debug, clap::Args)]
pub struct Args {}

pub(super) async fn run(context: &Context, Args {}: Args) -> anyhow::Result<()> {
    let roster = Roster::read(&context.client().await?).await?;
    let project = context.project()?;
    let runners = Runners::of(&project);
    let row = |(team, member)| Row::of(team, member, project.root(), &runners);
    let rows: Vec<Row<'_>> = roster.agents().map(row).collect();
    let answer: Vec<Value> = rows.iter().map(Row::json).collect();
    context.out.show(&answer, |_| Ok(table(&rows)))?;
    for team in roster.teams.iter().filter(|team| runners.is_lost(team)) {
        let again = match team.mode {
            Some(Mode::Standalone) => "`rookery new`",
            _ => "`rookery start`",
        };
        context.out.note(&format!(
            "the process that ran {id} is gone: {again} goes on with it, `rookery stop {id}` ends it",
            id = team.id
        ));
    }
    Ok(())
}

/// An agent that runs.
struct Row<'a> {
    team: &'a Team,
    member: &'a Member,
    source: String,
    status: &'static str,
}

impl<'a> Row<'a> {
    fn of(team: &'a Team, member: &'a Member, root: &Path, runners: &Runners) -> Row<'a> {
        let status = match member.state.as_str() {
            _ if runners.is_lost(team) => "lost",
            "working" if team.stop_requested || member.stop_requested => "stopping",
            "working" => "running",
            "waiting" => "waiting",
            "stopped" => "stopped",
            "failed" => "failed",
            _ => "idle",
        };
        Row { team, member, source: source(team, root), status }
    }

    fn tone(&self) -> TextStyle {
        match self.status {
            "running" => TextStyle::Good,
            "waiting" | "stopping" => TextStyle::Warning,
            "failed" | "lost" => TextStyle::Bad,
            "stopped" => TextStyle::Dim,
            _ => TextStyle::Plain,
        }
    }

    fn json(&self) -> Value {
        let Row { team, member, .. } = self;
        json!({
            "name": member.id,
            "source": self.source,
            "status": self.status,
            "team": team.id,
            "instance": team.instance,
            "workflow": team.workflow,
            "backend": member.backend,
            "model": member.model,
            "turn": member.open_turn,
            "turns": member.turns,
            "input_tokens": member.input_tokens,
            "output_tokens": member.output_tokens,
            "cost_usd": member.cost_usd,
            "runner": team.runner,
        })
    }
}

/// The file that an agent is from, as seen from the project.
fn source(team: &Team, root: &Path) -> String {
    match (&team.file, team.mode) {
        (_, Some(Mode::Standalone)) | (None, _) => "(standalone)".to_owned(),
        (Some(file), _) => Path::new(file).strip_prefix(root).unwrap_or(Path::new(file)).display().to_string(),
    }
}

fn table(rows: &[Row<'_>]) -> Table {
    let row = |row: &Row<'_>| {
        vec![row.member.id.as_str().into(), row.source.as_str().into(), Cell::new(row.status, row.tone())]
    };
    Table {
        headings: &["NAME", "SOURCE", "STATUS"],
        rows: rows.iter().map(row).collect(),
        empty: "no agent runs; start some with `rookery start FILE`, or one with `rookery new NAME`",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(value: Value) -> Team {
        let mut team =
            json!({"id": "@pr-1", "instance": "pr-1", "generation": 1, "file": "review.yaml", "mode": "start"});
        value.as_object().unwrap().iter().for_each(|(name, value)| team[name] = value.clone());
        serde_json::from_value(team).unwrap()
    }

    #[test]
    fn the_status_is_what_a_person_wants_to_know() {
        for (state, stop_requested, status) in [
            ("idle", false, "idle"),
            ("working", false, "running"),
            ("working", true, "stopping"),
            ("waiting", false, "waiting"),
            ("stopped", true, "stopped"),
            ("failed", false, "failed"),
        ] {
            let agents = json!([{"name": "a", "id": "a@pr-1", "state": state, "stop_requested": stop_requested}]);
            let team = team(json!({"agents": agents}));
            let row = Row::of(&team, &team.agents[0], Path::new("/p"), &Runners::default());
            assert_eq!((row.status, row.source.as_str()), (status, "review.yaml"));
        }
    }

    #[test]
    fn a_file_is_named_as_seen_from_the_project() {
        for (file, shown) in
            [("/p/flows/review.yaml", "flows/review.yaml"), ("/q/a.yaml", "/q/a.yaml"), ("a.yaml", "a.yaml")]
        {
            assert_eq!(source(&team(json!({"file": file})), Path::new("/p")), shown);
        }
    }

    #[test]
    fn one_that_stands_alone_has_no_file() {
        let agents = json!([{"name": "helper", "id": "helper", "state": "idle"}]);
        let team =
            team(json!({"id": "helper", "instance": "default", "file": null, "mode": "standalone", "agents": agents}));
        assert_eq!(source(&team, Path::new("/p")), "(standalone)");
    }
}
