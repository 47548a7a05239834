//! Random teams and turns, and their invariants.

use rookery_core::messages::{MessagesAcked, StormGuard};
use rookery_core::model::DeliveryId;
use rookery_core::model::message::Delivery;
use rookery_core::{
    AgentId, AnyCommand, EventRef, EventStamp, IntentId, Key, MessageId, Row, TeamId, TurnId, apply_row,
};
use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use rookery_core::kernel::caller::Caller;
use rookery_core::model::team::{Conclusion, Mode, Runner, StartTime, TeamStartSpec};
use rookery_core::model::turn::{Failure, Turn, TurnConclusion, Usage, WakeReason};
use rookery_core::teams::{
    AnnounceToTeam, ConcludeTeamStart, EndTeam, KickOff, NewMember, RequestTeamStart, RequestTeamStop, StartTeam,
    Takeover, TeamStartOutcome,
};
use rookery_core::teams::{EndTurn, Notes, StartTurn, TurnEnded};
use rookery_core::traits::LogRow;

use crate::mail::message;
use crate::steps::AGENTS;

/// A team of an instance, and a team of one agent that may also be in it.
const TEAMS: [&str; 2] = ["@default", "c"];
/// Marks a turn end that is adjusted to a turn under way.
const FITTING: u64 = 2;

fn team() -> impl Strategy<Value = TeamId> {
    prop_oneof![3 => Just(TEAMS[0]), 1 => Just(TEAMS[1])].prop_map(TeamId::from)
}

fn agent() -> impl Strategy<Value = AgentId> {
    select(&AGENTS[..]).prop_map(AgentId::from)
}

fn turn() -> impl Strategy<Value = TurnId> {
    (0_u16..500).prop_map(|number| TurnId::new(format!("u{number}")))
}

fn post() -> impl Strategy<Value = MessageId> {
    (0_u16..500).prop_map(|number| MessageId::new(format!("s{number}")))
}

fn generation() -> impl Strategy<Value = u64> {
    prop_oneof![4 => Just(1_u64), 1 => 2_u64..4]
}

pub(crate) fn random_request() -> BoxedStrategy<(Caller, AnyCommand)> {
    let caller = prop_oneof![12 => Just(Caller::person("anna")), 1 => Just(Caller::asserted("a"))];
    let mentions = prop::option::of(select(vec![vec![], vec!["b".to_owned()]]));
    let kickoff =
        (team(), generation(), post(), post(), mentions).prop_map(|(team, generation, began, text, mentions)| {
            KickOff { team, generation, text: Some("@a and @b, begin".to_owned()), mentions, messages: [began, text] }
        });
    let say = (team(), post()).prop_map(|(team, message)| AnnounceToTeam { team, message, text: "one @b".to_owned() });
    let stop = (team(), prop::option::of(agent())).prop_map(|(team, member)| RequestTeamStop {
        team,
        member,
        reason: Some("one".to_owned()),
    });
    let end = (team(), generation(), select(&Conclusion::ALL[..])).prop_map(|(team, generation, how)| EndTeam {
        team,
        generation,
        how,
        reason: Some("two".to_owned()),
    });
    let command = prop_oneof![
        5 => start().prop_map(AnyCommand::from),
        2 => kickoff.prop_map(AnyCommand::from),
        1 => say.prop_map(AnyCommand::from),
        1 => stop.prop_map(AnyCommand::from),
        2 => team_start_request().prop_map(AnyCommand::from),
        1 => end.prop_map(AnyCommand::from),
        10 => turn_start().prop_map(AnyCommand::from),
        10 => turn_end().prop_map(AnyCommand::from),
    ];
    prop_oneof![20 => (caller, command), 2 => team_start_conclusion().prop_map(|settle| (Caller::system(), settle.into()))].boxed()
}

fn intent() -> impl Strategy<Value = IntentId> {
    (0_u16..2).prop_map(|number| IntentId::new(format!("launch{number}")))
}

fn team_start_conclusion() -> impl Strategy<Value = ConcludeTeamStart> {
    let failed = TeamStartOutcome::Failed { reason: "one".to_owned() };
    (intent(), select(vec![TeamStartOutcome::Running, failed]))
        .prop_map(|(intent, outcome)| ConcludeTeamStart { intent, outcome })
}

fn team_start_request() -> impl Strategy<Value = RequestTeamStart> {
    intent().prop_map(|intent| RequestTeamStart {
        intent,
        team: TEAMS[0].into(),
        launch: TeamStartSpec { file: "one.yaml".to_owned(), params: vec!["two".to_owned()] },
        site: "site_1".into(),
    })
}

fn start() -> impl Strategy<Value = StartTeam> {
    let takeover = select(vec![Takeover::Refused, Takeover::FromTheDead]);
    (team(), subsequence(&AGENTS[..], 1..=AGENTS.len()), 1_u32..4, takeover).prop_map(|(team, names, pid, takeover)| {
        let member = |agent: AgentId| NewMember { agent, backend: "mock".to_owned(), model: None };
        let agents = match team.alone() {
            Some(only) => vec![member(only)],
            None => names.into_iter().map(|name| member(name.into())).collect(),
        };
        let (host, boot_id, started_at) = ("here".to_owned(), "boot".to_owned(), StartTime::Ticks(u64::from(pid)));
        let runner = Runner { host, boot_id, pid, started_at, site: None };
        StartTeam { team, workflow: "w".to_owned(), file: None, mode: Mode::Run, agents, runner, takeover }
    })
}

fn turn_start() -> impl Strategy<Value = StartTurn> {
    let messages = prop::collection::vec(prop_oneof![2 => message(), 1 => post()], 0..3);
    (turn(), team(), generation(), agent(), select(&WakeReason::ALL[..]), messages).prop_map(
        |(turn, team, generation, agent, woken, messages)| StartTurn {
            turn,
            team,
            generation,
            agent,
            attempt: 1,
            woken,
            messages,
        },
    )
}

fn turn_end() -> impl Strategy<Value = EndTurn> {
    let said = select(vec![None, Some("@a one"), Some("two")]);
    let transcript = select(vec![None, Some("ab".repeat(32))]);
    let tokens = prop_oneof![4 => Just(FITTING), 1 => Just(FITTING + 1)];
    (turn(), select(&TurnConclusion::ALL[..]), any::<bool>(), said, transcript, post(), tokens).prop_map(
        |(turn, how, last, said, transcript, message, output_tokens)| EndTurn {
            turn,
            how,
            last,
            failure: Some(Failure { kind: "k".to_owned(), reason: "one".to_owned(), detail: None }),
            usage: Usage { input_tokens: 3, output_tokens, cost_micros: Some(1) },
            notes: Notes { conversation: None, transcript },
            said: said.map(str::to_owned),
            message,
            people: vec![],
            guard: StormGuard { per_minute: 2, hops: 0 },
        },
    )
}

/// Adjusts a request to the current state of its team, unless it names another generation than the first: runners
/// mostly know
/// what they run.
pub(crate) fn fit_to_team(command: &mut AnyCommand, rows: &BTreeMap<Key, Row>) {
    let live = |id: &TeamId| match rows.get(&Key::Team(id.clone())) {
        Some(Row::Team(team)) => team.of.generation,
        _ => 1,
    };
    if let Some(kickoff) = command.get_mut::<KickOff>().filter(|kickoff| kickoff.generation == 1) {
        kickoff.generation = live(&kickoff.team);
    } else if let Some(end) = command.get_mut::<EndTeam>().filter(|end| end.generation == 1) {
        end.generation = live(&end.team);
    } else if let Some(turn) = command.get_mut::<StartTurn>().filter(|turn| turn.generation == 1) {
        turn.generation = live(&turn.team);
        let waits = rows.values().filter_map(|row| match row {
            Row::Delivery(delivery) if delivery.agent == turn.agent && !delivery.is_settled() => {
                Some(delivery.message.clone())
            }
            _ => None,
        });
        turn.messages = waits.take(turn.messages.len()).collect();
    } else if let Some(end) = command.get_mut::<EndTurn>() {
        let open = |row: &Row| matches!(row, Row::Turn(turn) if turn.end.is_none());
        let open = rows.iter().find(|(_, row)| open(row)).map(|(key, _)| key.clone());
        if let (Some(Key::Turn(turn)), true) = (open, end.usage.output_tokens == FITTING) {
            end.turn = turn;
        }
    }
}

pub(crate) fn check(log: &[LogRow], rows: &BTreeMap<Key, Row>) {
    check_agents_are_in_one_team_and_turn(rows);
    check_kickoffs_are_posted_once(log);
    check_turn_ends(log);
}

fn check_agents_are_in_one_team_and_turn(rows: &BTreeMap<Key, Row>) {
    let teams = || rows.values().filter_map(|row| if let Row::Team(team) = row { Some(team) } else { None });
    let open = || {
        let turns = rows.values().filter_map(|row| if let Row::Turn(turn) = row { Some(turn) } else { None });
        turns.filter(|turn| turn.end.is_none())
    };
    let mut engaged = BTreeSet::new();
    for member in teams().filter(|team| team.is_live()).flat_map(|team| &team.members) {
        assert!(engaged.insert(&member.agent), "{} is in two teams", member.agent);
    }
    let mut busy = BTreeSet::new();
    for turn in open() {
        assert!(busy.insert(&turn.agent), "{} is at two turns", turn.agent);
        let Some(Row::Team(team)) = rows.get(&Key::Team(turn.of.team.clone())) else { panic!("{turn:?} of no team") };
        assert!(team.is_live() && team.of == turn.of, "{turn:?} of {team:?}");
        assert_eq!(team.member(&turn.agent).and_then(|member| member.turn.as_ref()), Some(&turn.id));
    }
    let under_way: BTreeSet<&AgentId> =
        teams().flat_map(|team| &team.members).filter(|member| member.turn.is_some()).map(|m| &m.agent).collect();
    assert_eq!(under_way, busy);
}

fn check_kickoffs_are_posted_once(log: &[LogRow]) {
    let mut kicked_off = BTreeSet::new();
    for row in log {
        let EventRef::TeamKickedOff(kicked_off_event) = row.event.typed() else { continue };
        assert!(kicked_off.insert((&kicked_off_event.of.team, kicked_off_event.of.generation)), "{row:?}");
        let posted = caused_by(log, row).filter_map(|row| match row.event.typed() {
            EventRef::MessageSent(sent) => Some(sent.letter.header.message.clone()),
            _ => None,
        });
        assert_eq!(posted.collect::<Vec<_>>(), kicked_off_event.messages);
    }
}

/// The other events of the same command.
fn caused_by<'a>(log: &'a [LogRow], first: &'a LogRow) -> impl Iterator<Item = &'a LogRow> {
    let rest = log.iter().filter(|row| row.seq > first.seq);
    rest.take_while(|row| row.first() == first.seq)
}

/// A turn ends once. Its end decides about all open messages of that turn and no others: either all are acknowledged,
/// or all are
/// given up.
fn check_turn_ends(log: &[LogRow]) {
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    let mut ended = BTreeSet::new();
    for entry in log {
        if let EventRef::TurnEnded(ended_event) = entry.event.typed() {
            assert!(ended.insert(ended_event.turn.clone()), "{ended_event:?} again");
            let Some(Row::Turn(turn)) = rows.get(&Key::Turn(ended_event.turn.clone())) else {
                panic!("{ended_event:?} of no turn")
            };
            check_turn_end(ended_event, turn, &rows, &caused_by(log, entry).collect::<Vec<_>>());
        }
        for key in entry.event.write_set() {
            let old = rows.remove(&key);
            if let Some(new) = apply_row(old, &key, &entry.event, EventStamp { seq: entry.seq, at: entry.at }) {
                rows.insert(key, new);
            }
        }
    }
}

fn check_turn_end(event: &TurnEnded, turn: &Turn, before: &BTreeMap<Key, Row>, with_it: &[&LogRow]) {
    let delivery = |message: &MessageId| -> Option<&Delivery> {
        match before.get(&Key::Delivery(DeliveryId { message: message.clone(), agent: turn.agent.clone() })) {
            Some(Row::Delivery(delivery)) => Some(delivery),
            _ => None,
        }
    };
    let open: BTreeSet<&MessageId> = turn
        .messages
        .iter()
        .filter(|message| delivery(message).is_some_and(|delivery| !delivery.is_settled()))
        .collect();
    let alive: BTreeSet<&MessageId> =
        open.iter().copied().filter(|message| delivery(message).is_some_and(|delivery| !delivery.is_dead())).collect();
    let (mut acked, mut given_up) = (BTreeSet::new(), BTreeSet::new());
    for row in with_it {
        match row.event.typed() {
            EventRef::MessagesAcked(MessagesAcked(receipt)) => {
                assert_eq!(receipt.agent, turn.agent);
                acked.extend(receipt.messages.iter().chain(&receipt.broadcasts));
            }
            EventRef::DeliveryAbandoned(abandoned) => {
                assert_eq!(abandoned.agent, turn.agent);
                given_up.insert(&abandoned.message);
            }
            _ => {}
        }
    }
    let nothing = BTreeSet::new();
    let (wanted_acked, wanted_given_up) = match event.how {
        TurnConclusion::Done => (&open, &nothing),
        TurnConclusion::Failed if event.gave_up => (&nothing, &alive),
        TurnConclusion::Failed | TurnConclusion::Interrupted => (&nothing, &nothing),
    };
    assert_eq!((&acked, &given_up), (wanted_acked, wanted_given_up), "{event:?}");
}
