//! Property tests of machines with arbitrary sequences of events.

use proptest::prelude::*;

use super::*;

/// The environment of one machine: at most one operation in progress, and possibly a process.
struct MachineWorld {
    machine: Machine,
    now: Timestamp,
    under_way: Option<MachineEffect>,
    process: bool,
    saved: DesiredState,
}

impl MachineWorld {
    fn new(desired: DesiredState, process: bool) -> Self {
        let (machine, first) = Machine::new(desired, Rules::default());
        Self { machine, now: Timestamp::from_micros(0), under_way: Some(first), process, saved: desired }
    }

    fn new_running() -> Self {
        let mut world = MachineWorld::new(DesiredState::Stopped, false);
        world.finish_operation(true);
        world.feed_event(MachineEvent::StartRequested);
        world.settle_all();
        assert_eq!(world.machine.status(), MachineStatus::Running);
        world
    }

    fn feed_event(&mut self, event: MachineEvent) {
        for effect in self.machine.apply_event(event, self.now) {
            match effect {
                MachineEffect::Save(desired) => self.saved = desired,
                MachineEffect::Lapse => self.saved = DesiredState::Stopped,
                MachineEffect::StopDriver => self.under_way = Some(effect),
                MachineEffect::Attach | MachineEffect::StartDriver | MachineEffect::Greet => {
                    assert_eq!(self.under_way, None, "{effect:?} while another operation is under way");
                    assert!(effect != MachineEffect::StartDriver || !self.process, "a second start");
                    self.under_way = Some(effect);
                }
            }
        }
    }

    /// Completes the operation in progress.
    fn finish_operation(&mut self, well: bool) {
        let failed = || MachineEvent::StartFailed { reason: "because".into(), permanent: false };
        let event = match (self.under_way.take(), well) {
            (None | Some(MachineEffect::Save(_) | MachineEffect::Lapse), _) => return,
            (Some(MachineEffect::Attach), _) if self.process => MachineEvent::Attached,
            (Some(MachineEffect::Attach), _) => MachineEvent::NothingToAttach,
            (Some(MachineEffect::StartDriver), true) => {
                self.process = true;
                MachineEvent::DriverStarted
            }
            (Some(MachineEffect::Greet), true) => {
                MachineEvent::AgentAnswered { instance: InstanceId::from_random(1) }
            }
            (Some(MachineEffect::StartDriver | MachineEffect::Greet), false) => failed(),
            (Some(MachineEffect::StopDriver), true) => {
                self.process = false;
                MachineEvent::DriverStopped
            }
            (Some(MachineEffect::StopDriver), false) => MachineEvent::StopFailed { reason: "stuck".into() },
        };
        self.feed_event(event);
    }

    fn lose_agent(&mut self) {
        if self.process {
            self.feed_event(MachineEvent::AgentLost { reason: "gone".into() });
        }
    }

    /// Completes all operations successfully and lets pauses pass until the machine is at rest.
    fn settle_all(&mut self) {
        for _ in 0..100 {
            if self.under_way.is_some() {
                self.finish_operation(true);
            } else if let MachinePhase::Backoff { until, .. } = *self.machine.state() {
                self.now = until;
                self.feed_event(MachineEvent::Tick);
            } else {
                return;
            }
        }
        panic!("it does not come to rest: {:?}", self.machine);
    }
}

#[derive(Debug, Clone)]
enum MachineAct {
    Start,
    Stop,
    TurnBegan,
    TurnEnded,
    Finish(bool),
    Lose,
    Pass(u64),
    Stray(u8),
}

fn act_strategy() -> impl Strategy<Value = Vec<MachineAct>> {
    let act = prop_oneof![
        3 => Just(MachineAct::Start),
        3 => Just(MachineAct::Stop),
        2 => Just(MachineAct::TurnBegan),
        2 => Just(MachineAct::TurnEnded),
        8 => any::<bool>().prop_map(MachineAct::Finish),
        2 => Just(MachineAct::Lose),
        3 => (0_u64..2_000).prop_map(MachineAct::Pass),
        1 => (0_u8..3).prop_map(MachineAct::Stray),
    ];
    prop::collection::vec(act, 0..60)
}

fn play_act(world: &mut MachineWorld, act: &MachineAct) {
    match act {
        MachineAct::Start => world.feed_event(MachineEvent::StartRequested),
        MachineAct::Stop => world.feed_event(MachineEvent::StopRequested),
        MachineAct::TurnBegan => world.feed_event(MachineEvent::TurnBegan),
        MachineAct::TurnEnded => world.feed_event(MachineEvent::TurnEnded),
        MachineAct::Finish(well) => world.finish_operation(*well),
        MachineAct::Lose => world.lose_agent(),
        MachineAct::Pass(seconds) => {
            world.now = world.now.saturating_add(Duration::from_secs(*seconds));
            world.feed_event(MachineEvent::Tick);
        }
        // Late reports of superseded operations.
        MachineAct::Stray(0) if !matches!(world.machine.state(), MachinePhase::Attaching) => {
            world.feed_event(MachineEvent::Attached)
        }
        MachineAct::Stray(1) if !matches!(world.machine.state(), MachinePhase::Attaching) => {
            world.feed_event(MachineEvent::NothingToAttach)
        }
        MachineAct::Stray(_) => world.feed_event(MachineEvent::Tick),
    }
}

proptest! {
    #[test]
    fn machine_rests_in_desired_state(
        meant in any::<bool>(),
        process in any::<bool>(),
        acts in act_strategy(),
    ) {
        let desired = if meant { DesiredState::Running } else { DesiredState::Stopped };
        let mut world = MachineWorld::new(desired, process);
        for act in &acts {
            let before = world.machine.status();
            play_act(&mut world, act);
            prop_assert_eq!(world.saved, world.machine.desired_state());
            match act {
                MachineAct::Start => {
                    prop_assert_eq!(world.machine.desired_state(), DesiredState::Running);
                    prop_assert_ne!(world.machine.status(), MachineStatus::Stopped);
                    if matches!(before, MachineStatus::Running | MachineStatus::Starting) {
                        prop_assert_eq!(world.machine.status(), before, "a start has no effect here");
                    }
                }
                MachineAct::Stop => {
                    prop_assert_eq!(world.machine.desired_state(), DesiredState::Stopped);
                    prop_assert!(matches!(
                        world.machine.status(),
                        MachineStatus::Stopped | MachineStatus::Stopping
                    ));
                }
                MachineAct::TurnBegan | MachineAct::TurnEnded => prop_assert_eq!(world.machine.status(), before),
                MachineAct::Finish(_) | MachineAct::Lose | MachineAct::Pass(_) | MachineAct::Stray(_) => {}
            }
            if world.machine.status() == MachineStatus::Running {
                prop_assert!(world.process);
            }
        }
        world.settle_all();
        match world.machine.state() {
            MachinePhase::Running { .. } => prop_assert_eq!(world.machine.desired_state(), DesiredState::Running),
            MachinePhase::Stopped | MachinePhase::Failed { .. } => {
                prop_assert_eq!(world.machine.desired_state(), DesiredState::Stopped);
            }
            other => prop_assert!(false, "at rest in {:?}", other),
        }
    }

    #[test]
    fn starts_that_fail_are_bounded(turns in 0_u32..3) {
        let mut world = MachineWorld::new(DesiredState::Stopped, false);
        world.finish_operation(true);
        for _ in 0..turns {
            world.feed_event(MachineEvent::TurnBegan);
        }
        world.feed_event(MachineEvent::StartRequested);
        let mut starts = 0;
        for _ in 0..100 {
            if world.under_way == Some(MachineEffect::StartDriver) {
                starts += 1;
                world.finish_operation(false);
            } else if let Some(due) = world.machine.wake_at() {
                world.now = due;
                world.feed_event(MachineEvent::Tick);
            }
        }
        prop_assert_eq!(starts, Rules::default().start_attempts_max);
        prop_assert_eq!(world.machine.state(), &MachinePhase::Failed { reason: "because".into() });
        prop_assert_eq!(world.saved, DesiredState::Stopped);
    }
}

#[test]
fn start_while_stopping_starts_once() {
    let mut world = MachineWorld::new_running();
    world.feed_event(MachineEvent::StopRequested);
    world.feed_event(MachineEvent::StartRequested);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);
    world.finish_operation(true);
    assert_eq!(world.machine.status(), MachineStatus::Starting);
}

#[test]
fn stop_while_starting_abandons_start() {
    let mut world = MachineWorld::new(DesiredState::Stopped, false);
    world.finish_operation(true);
    world.feed_event(MachineEvent::StartRequested);
    world.feed_event(MachineEvent::StopRequested);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);
    assert_eq!(world.under_way, Some(MachineEffect::StopDriver));
    world.feed_event(MachineEvent::DriverStarted);
    assert_eq!(world.machine.status(), MachineStatus::Stopping, "a late report is ignored");
}

#[test]
fn dead_machine_restarts_only_for_turns() {
    let mut world = MachineWorld::new_running();
    world.feed_event(MachineEvent::TurnBegan);
    world.lose_agent();
    assert_eq!(world.machine.status(), MachineStatus::Starting);
    world.settle_all();
    assert_eq!(world.machine.status(), MachineStatus::Running);
    world.feed_event(MachineEvent::TurnEnded);
    world.lose_agent();
    world.settle_all();
    assert_eq!(world.machine.status(), MachineStatus::Stopped);
}

#[test]
fn repeatedly_dying_machine_is_given_up() {
    let mut world = MachineWorld::new_running();
    world.feed_event(MachineEvent::TurnBegan);
    for _ in 0..Rules::default().start_attempts_max {
        world.lose_agent();
        world.settle_all();
    }
    assert_eq!(world.machine.state(), &MachinePhase::Failed { reason: "gone".into() });
    let mut steady = MachineWorld::new_running();
    steady.feed_event(MachineEvent::TurnBegan);
    for _ in 0..20 {
        steady.now = steady.now.saturating_add(Rules::default().stable_after);
        steady.lose_agent();
        steady.settle_all();
    }
    assert_eq!(steady.machine.status(), MachineStatus::Running, "a good run between losses forgives them");
}

#[test]
fn owner_stop_makes_turns_wait() {
    let mut world = MachineWorld::new_running();
    world.feed_event(MachineEvent::TurnBegan);
    world.feed_event(MachineEvent::StopRequested);
    world.settle_all();
    assert_eq!(world.machine.status(), MachineStatus::Stopped);
    assert_eq!(world.machine.turn_count(), 1);
    world.feed_event(MachineEvent::StartRequested);
    world.settle_all();
    assert_eq!(world.machine.status(), MachineStatus::Running);
}

#[test]
fn machine_stops_only_when_idle() {
    let timeout = Rules::default().idle_timeout.expect("the default has one");
    let mut world = MachineWorld::new_running();
    world.feed_event(MachineEvent::TurnBegan);
    world.now = world.now.saturating_add(timeout * 2);
    world.feed_event(MachineEvent::Tick);
    assert_eq!(world.machine.status(), MachineStatus::Running);
    world.feed_event(MachineEvent::TurnEnded);
    assert_eq!(world.machine.wake_at(), Some(world.now.saturating_add(timeout)));
    world.now = world.now.saturating_add(timeout);
    world.feed_event(MachineEvent::Tick);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);
    assert_eq!(world.saved, DesiredState::Stopped);
}

#[test]
fn earlier_services_machine_is_attached() {
    let mut world = MachineWorld::new(DesiredState::Running, true);
    world.finish_operation(true);
    assert_eq!(world.under_way, Some(MachineEffect::Greet), "it is not started anew");
    let mut unwanted = MachineWorld::new(DesiredState::Stopped, true);
    unwanted.settle_all();
    assert_eq!(unwanted.machine.status(), MachineStatus::Stopped);
    assert!(!unwanted.process);
}

#[test]
fn machine_restarts_for_question_after_stop() {
    let mut world = MachineWorld::new_running();
    let effects = world.machine.apply_event(MachineEvent::AgentLost { reason: "gone".into() }, world.now);
    assert_eq!(effects, [MachineEffect::Lapse, MachineEffect::StopDriver]);
    // A question waits in the store, so the service requests a start.
    let effects = world.machine.apply_event(MachineEvent::StartRequested, world.now);
    assert_eq!(effects, [MachineEffect::Save(DesiredState::Running)]);
    assert_eq!(
        world.machine.apply_event(MachineEvent::DriverStopped, world.now),
        [MachineEffect::StartDriver]
    );
}

#[test]
fn owner_stops_failed_machine() {
    let mut world = MachineWorld::new_running();
    world.feed_event(MachineEvent::TurnBegan);
    for _ in 0..Rules::default().start_attempts_max {
        world.lose_agent();
        world.settle_all();
    }
    assert_eq!(world.machine.status(), MachineStatus::Stopped);
    world.saved = DesiredState::Running; // a question was waiting when it failed
    world.feed_event(MachineEvent::StopRequested);
    assert_eq!(world.saved, DesiredState::Stopped);
}

#[test]
fn repeated_start_restarts_idle_time() {
    let timeout = Rules::default().idle_timeout.expect("the default has one");
    let mut world = MachineWorld::new_running();
    let began = world.now;
    world.now = began.saturating_add(timeout - Duration::from_secs(1));
    world.feed_event(MachineEvent::StartRequested);
    assert_eq!(world.machine.status(), MachineStatus::Running);
    assert_eq!(world.machine.wake_at(), Some(world.now.saturating_add(timeout)));
    world.feed_event(MachineEvent::TurnBegan);
    world.feed_event(MachineEvent::StartRequested);
    assert_eq!(world.machine.wake_at(), None, "a turn is under way");
}

#[test]
fn grown_machine_stops_sooner_when_idle() {
    let rules = Rules::default();
    let mut world = MachineWorld::new_running();
    world.feed_event(MachineEvent::MemoryMeasured { bytes: rules.grown_from_bytes });
    let idle = rules.idle_timeout.expect("the default has one");
    assert_eq!(world.machine.wake_at(), Some(world.now.saturating_add(idle)));
    world.feed_event(MachineEvent::MemoryMeasured { bytes: rules.grown_from_bytes + 1 });
    assert_eq!(world.machine.wake_at(), Some(world.now.saturating_add(rules.grown_idle_timeout)));
    world.feed_event(MachineEvent::TurnBegan);
    world.feed_event(MachineEvent::MemoryMeasured { bytes: u64::MAX });
    assert_eq!(world.machine.wake_at(), None);
    world.feed_event(MachineEvent::TurnEnded);
    assert_eq!(world.machine.wake_at(), Some(world.now.saturating_add(idle)), "it is measured anew");
    world.feed_event(MachineEvent::MemoryMeasured { bytes: u64::MAX });
    world.now = world.now.saturating_add(rules.grown_idle_timeout);
    world.feed_event(MachineEvent::Tick);
    assert_eq!(world.machine.status(), MachineStatus::Stopping);

    let (mut kept, _) = Machine::new(DesiredState::Running, Rules { idle_timeout: None, ..rules });
    kept.apply_event(MachineEvent::Attached, world.now);
    kept.apply_event(MachineEvent::AgentAnswered { instance: InstanceId::from_random(1) }, world.now);
    kept.apply_event(MachineEvent::MemoryMeasured { bytes: u64::MAX }, world.now);
    assert_eq!(kept.wake_at(), None, "machines that are never stopped are not stopped sooner");
}
