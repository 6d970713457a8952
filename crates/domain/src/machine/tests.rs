//! Property tests of machines with arbitrary sequences of events.

use proptest::prelude::*;

use super::*;

/// The environment of one machine: at most one operation in progress, and possibly a process.
struct World {
    machine: Machine,
    now: Timestamp,
    under_way: Option<Effect>,
    process: bool,
    saved: Desired,
}

impl World {
    fn new(desired: Desired, process: bool) -> Self {
        let (machine, first) = Machine::new(desired, Rules::default());
        Self { machine, now: Timestamp::from_micros(0), under_way: Some(first), process, saved: desired }
    }

    fn running() -> Self {
        let mut world = World::new(Desired::Stopped, false);
        world.finish(true);
        world.feed(Event::StartRequested);
        world.settle();
        assert_eq!(world.machine.status(), MachineStatus::Running);
        world
    }

    fn feed(&mut self, event: Event) {
        for effect in self.machine.on(event, self.now) {
            match effect {
                Effect::Save(desired) => self.saved = desired,
                Effect::Lapse => self.saved = Desired::Stopped,
                Effect::StopDriver => self.under_way = Some(effect),
                Effect::Attach | Effect::StartDriver | Effect::Greet => {
                    assert_eq!(self.under_way, None, "{effect:?} while another operation is under way");
                    assert!(effect != Effect::StartDriver || !self.process, "a second start");
                    self.under_way = Some(effect);
                }
            }
        }
    }

    /// Completes the operation in progress.
    fn finish(&mut self, well: bool) {
        let failed = || Event::StartFailed { reason: "because".into(), permanent: false };
        let event = match (self.under_way.take(), well) {
            (None | Some(Effect::Save(_) | Effect::Lapse), _) => return,
            (Some(Effect::Attach), _) if self.process => Event::Attached,
            (Some(Effect::Attach), _) => Event::NothingToAttach,
            (Some(Effect::StartDriver), true) => {
                self.process = true;
                Event::DriverStarted
            }
            (Some(Effect::Greet), true) => Event::AgentAnswered { instance: InstanceId::from_random(1) },
            (Some(Effect::StartDriver | Effect::Greet), false) => failed(),
            (Some(Effect::StopDriver), true) => {
                self.process = false;
                Event::DriverStopped
            }
            (Some(Effect::StopDriver), false) => Event::StopFailed { reason: "stuck".into() },
        };
        self.feed(event);
    }

    fn lose(&mut self) {
        if self.process {
            self.feed(Event::AgentLost { reason: "gone".into() });
        }
    }

    /// Completes all operations successfully and lets pauses pass until the machine is at rest.
    fn settle(&mut self) {
        for _ in 0..100 {
            if self.under_way.is_some() {
                self.finish(true);
            } else if let State::Backoff { until, .. } = *self.machine.state() {
                self.now = until;
                self.feed(Event::Tick);
            } else {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.machine);
    }
}

#[derive(Debug, Clone)]
enum Act {
    Start,
    Stop,
    TurnBegan,
    TurnEnded,
    Finish(bool),
    Lose,
    Pass(u64),
    Stray(u8),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        3 => Just(Act::Start),
        3 => Just(Act::Stop),
        2 => Just(Act::TurnBegan),
        2 => Just(Act::TurnEnded),
        8 => any::<bool>().prop_map(Act::Finish),
        2 => Just(Act::Lose),
        3 => (0_u64..2_000).prop_map(Act::Pass),
        1 => (0_u8..3).prop_map(Act::Stray),
    ];
    prop::collection::vec(act, 0..60)
}

fn play(world: &mut World, act: &Act) {
    match act {
        Act::Start => world.feed(Event::StartRequested),
        Act::Stop => world.feed(Event::StopRequested),
        Act::TurnBegan => world.feed(Event::TurnBegan),
        Act::TurnEnded => world.feed(Event::TurnEnded),
        Act::Finish(well) => world.finish(*well),
        Act::Lose => world.lose(),
        Act::Pass(seconds) => {
            world.now = world.now.plus(Duration::from_secs(*seconds));
            world.feed(Event::Tick);
        }
        // Late reports of superseded operations.
        Act::Stray(0) if !matches!(world.machine.state(), State::Attaching) => world.feed(Event::Attached),
        Act::Stray(1) if !matches!(world.machine.state(), State::Attaching) => {
            world.feed(Event::NothingToAttach)
        }
        Act::Stray(_) => world.feed(Event::Tick),
    }
}

proptest! {
    #[test]
    fn it_comes_to_rest_in_the_desired_state(
        meant in any::<bool>(),
        process in any::<bool>(),
        acts in acts(),
    ) {
        let desired = if meant { Desired::Running } else { Desired::Stopped };
        let mut world = World::new(desired, process);
        for act in &acts {
            let before = world.machine.status();
            play(&mut world, act);
            prop_assert_eq!(world.saved, world.machine.desired());
            match act {
                Act::Start => {
                    prop_assert_eq!(world.machine.desired(), Desired::Running);
                    prop_assert_ne!(world.machine.status(), MachineStatus::Stopped);
                    if matches!(before, MachineStatus::Running | MachineStatus::Starting) {
                        prop_assert_eq!(world.machine.status(), before, "a start has no effect here");
                    }
                }
                Act::Stop => {
                    prop_assert_eq!(world.machine.desired(), Desired::Stopped);
                    prop_assert!(matches!(
                        world.machine.status(),
                        MachineStatus::Stopped | MachineStatus::Stopping
                    ));
                }
                Act::TurnBegan | Act::TurnEnded => prop_assert_eq!(world.machine.status(), before),
                Act::Finish(_) | Act::Lose | Act::Pass(_) | Act::Stray(_) => {}
            }
            if world.machine.status() == MachineStatus::Running {
                prop_assert!(world.process);
            }
        }
        world.settle();
        match world.machine.state() {
            State::Running { .. } => prop_assert_eq!(world.machine.desired(), Desired::Running),
            State::Stopped | State::Failed { .. } => {
                prop_assert_eq!(world.machine.desired(), Desired::Stopped);
            }
            other => prop_assert!(false, "at rest in {:?}", other),
        }
    }

    #[test]
    fn starts_that_fail_are_bounded(turns in 0_u32..3) {
        let mut world = World::new(Desired::Stopped, false);
        world.finish(true);
        for _ in 0..turns {
            world.feed(Event::TurnBegan);
        }
        world.feed(Event::StartRequested);
        let mut starts = 0;
        for _ in 0..100 {
            if world.under_way == Some(Effect::StartDriver) {
                starts += 1;
                world.finish(false);
            } else if let Some(due) = world.machine.wake_at() {
                world.now = due;
                world.feed(Event::Tick);
            }
        }
        prop_assert_eq!(starts, Rules::default().start_attempts_max);
        prop_assert_eq!(world.machine.state(), &State::Failed { reason: "because".into() });
        prop_assert_eq!(world.saved, Desired::Stopped);
    }
}

#[test]
fn a_start_while_stopping_starts_once_stopped() {
    let mut world = World::running();
    world.feed(Event::StopRequested);
    world.feed(Event::StartRequested);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);
    world.finish(true);
    assert_eq!(world.machine.status(), MachineStatus::Starting);
}

#[test]
fn a_stop_while_starting_abandons_the_start() {
    let mut world = World::new(Desired::Stopped, false);
    world.finish(true);
    world.feed(Event::StartRequested);
    world.feed(Event::StopRequested);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);
    assert_eq!(world.under_way, Some(Effect::StopDriver));
    world.feed(Event::DriverStarted);
    assert_eq!(world.machine.status(), MachineStatus::Stopping, "a late report is ignored");
}

#[test]
fn a_machine_that_dies_is_started_again_for_turns_alone() {
    let mut world = World::running();
    world.feed(Event::TurnBegan);
    world.lose();
    assert_eq!(world.machine.status(), MachineStatus::Starting);
    world.settle();
    assert_eq!(world.machine.status(), MachineStatus::Running);
    world.feed(Event::TurnEnded);
    world.lose();
    world.settle();
    assert_eq!(world.machine.status(), MachineStatus::Stopped);
}

#[test]
fn a_machine_that_dies_over_and_over_is_given_up() {
    let mut world = World::running();
    world.feed(Event::TurnBegan);
    for _ in 0..Rules::default().start_attempts_max {
        world.lose();
        world.settle();
    }
    assert_eq!(world.machine.state(), &State::Failed { reason: "gone".into() });
    let mut steady = World::running();
    steady.feed(Event::TurnBegan);
    for _ in 0..20 {
        steady.now = steady.now.plus(Rules::default().stable_after);
        steady.lose();
        steady.settle();
    }
    assert_eq!(steady.machine.status(), MachineStatus::Running, "a good run between losses forgives them");
}

#[test]
fn its_owner_stops_it_and_turns_wait() {
    let mut world = World::running();
    world.feed(Event::TurnBegan);
    world.feed(Event::StopRequested);
    world.settle();
    assert_eq!(world.machine.status(), MachineStatus::Stopped);
    assert_eq!(world.machine.turns(), 1);
    world.feed(Event::StartRequested);
    world.settle();
    assert_eq!(world.machine.status(), MachineStatus::Running);
}

#[test]
fn it_is_stopped_when_idle_and_only_then() {
    let timeout = Rules::default().idle_timeout.expect("the default has one");
    let mut world = World::running();
    world.feed(Event::TurnBegan);
    world.now = world.now.plus(timeout * 2);
    world.feed(Event::Tick);
    assert_eq!(world.machine.status(), MachineStatus::Running);
    world.feed(Event::TurnEnded);
    assert_eq!(world.machine.wake_at(), Some(world.now.plus(timeout)));
    world.now = world.now.plus(timeout);
    world.feed(Event::Tick);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);
    assert_eq!(world.saved, Desired::Stopped);
}

#[test]
fn a_running_machine_of_an_earlier_service_is_attached() {
    let mut world = World::new(Desired::Running, true);
    world.finish(true);
    assert_eq!(world.under_way, Some(Effect::Greet), "it is not started anew");
    let mut unwanted = World::new(Desired::Stopped, true);
    unwanted.settle();
    assert_eq!(unwanted.machine.status(), MachineStatus::Stopped);
    assert!(!unwanted.process);
}

#[test]
fn a_machine_that_stops_by_itself_is_started_for_a_question_that_came_meanwhile() {
    let mut world = World::running();
    let effects = world.machine.on(Event::AgentLost { reason: "gone".into() }, world.now);
    assert_eq!(effects, [Effect::Lapse, Effect::StopDriver]);
    // A question waits in the store, so the service requests a start.
    let effects = world.machine.on(Event::StartRequested, world.now);
    assert_eq!(effects, [Effect::Save(Desired::Running)]);
    assert_eq!(world.machine.on(Event::DriverStopped, world.now), [Effect::StartDriver]);
}

#[test]
fn its_owner_can_stop_a_failed_machine() {
    let mut world = World::running();
    world.feed(Event::TurnBegan);
    for _ in 0..Rules::default().start_attempts_max {
        world.lose();
        world.settle();
    }
    assert_eq!(world.machine.status(), MachineStatus::Stopped);
    world.saved = Desired::Running; // a question was waiting when it failed
    world.feed(Event::StopRequested);
    assert_eq!(world.saved, Desired::Stopped);
}

#[test]
fn a_start_of_one_that_runs_lets_it_be_idle_from_then_on() {
    let timeout = Rules::default().idle_timeout.expect("the default has one");
    let mut world = World::running();
    let began = world.now;
    world.now = began.plus(timeout - Duration::from_secs(1));
    world.feed(Event::StartRequested);
    assert_eq!(world.machine.status(), MachineStatus::Running);
    assert_eq!(world.machine.wake_at(), Some(world.now.plus(timeout)));
    world.feed(Event::TurnBegan);
    world.feed(Event::StartRequested);
    assert_eq!(world.machine.wake_at(), None, "a turn is under way");
}

#[test]
fn one_that_has_grown_is_stopped_sooner_unless_a_turn_needs_it() {
    let rules = Rules::default();
    let mut world = World::running();
    world.feed(Event::MemoryMeasured { bytes: rules.grown_from_bytes });
    let idle = rules.idle_timeout.expect("the default has one");
    assert_eq!(world.machine.wake_at(), Some(world.now.plus(idle)));
    world.feed(Event::MemoryMeasured { bytes: rules.grown_from_bytes + 1 });
    assert_eq!(world.machine.wake_at(), Some(world.now.plus(rules.grown_idle_timeout)));
    world.feed(Event::TurnBegan);
    world.feed(Event::MemoryMeasured { bytes: u64::MAX });
    assert_eq!(world.machine.wake_at(), None);
    world.feed(Event::TurnEnded);
    assert_eq!(world.machine.wake_at(), Some(world.now.plus(idle)), "it is measured anew");
    world.feed(Event::MemoryMeasured { bytes: u64::MAX });
    world.now = world.now.plus(rules.grown_idle_timeout);
    world.feed(Event::Tick);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);

    let (mut kept, _) = Machine::new(Desired::Running, Rules { idle_timeout: None, ..rules });
    kept.on(Event::Attached, world.now);
    kept.on(Event::AgentAnswered { instance: InstanceId::from_random(1) }, world.now);
    kept.on(Event::MemoryMeasured { bytes: u64::MAX }, world.now);
    assert_eq!(kept.wake_at(), None, "machines that are never stopped are not stopped sooner");
}
