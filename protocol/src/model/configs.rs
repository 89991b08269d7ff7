//! The named configurations.

use super::state::Config;

/// Two members, one worker, two faults of the kinds that a configuration names.
fn base(name: &'static str) -> Config {
    Config { name, members: 2, workers: vec![0], faults: 2, ..Config::default() }
}

/// The same with a person who follows `docs/recovery.md`, in a world of snapshots.
#[cfg(publication_model)]
fn verdict(name: &'static str) -> Config {
    Config { snapshot: true, verdicts: true, ..base(name) }
}

/// Small enough for a build without optimisation.
pub(super) fn light() -> Vec<Config> {
    vec![
        Config { workers: vec![0, 0], faults: 0, snapshot: true, coarse: true, ..base("n2_w2_race") },
        Config {
            absent_target: true,
            loss: true,
            crash: true,
            split: true,
            permit: true,
            ..base("n2_w1_absent_target")
        },
        Config { members: 3, faults: 1, crash: true, coarse: true, ..base("n3_w1") },
        Config {
            faults: 1,
            deletion: true,
            permit: true,
            crash: true,
            again: true,
            ..base("n2_w1_deletion")
        },
    ]
}

#[cfg(publication_model)]
pub(super) fn heavy() -> Vec<Config> {
    vec![
        Config { loss: true, crash: true, ..base("n2_w1_loss") },
        Config { loss: true, refuse: true, delay: true, coarse: true, ..verdict("n2_w1_verdict") },
        Config {
            faults: 1,
            snapshot: false,
            loss: true,
            refuse: true,
            delay: true,
            crash: true,
            ..verdict("n2_w1_verdict_unhurried")
        },
        Config {
            absent_target: true,
            loss: true,
            refuse: true,
            delay: true,
            down: true,
            ..verdict("n2_w1_verdict_absent_target")
        },
        Config {
            faults: 1,
            removal: true,
            undo: true,
            twice: true,
            refuse: true,
            ..verdict("n2_w1_verdict_residue")
        },
        Config {
            workers: vec![0, 1],
            faults: 1,
            loss: true,
            refuse: true,
            delay: true,
            coarse: true,
            ..verdict("n2_two_operations_verdict")
        },
        Config { members: 3, faults: 1, refuse: true, loss: true, coarse: true, ..verdict("n3_w1_verdict") },
        Config {
            reprint: true,
            refuse: true,
            loss: true,
            coarse: true,
            ..verdict("n2_w1_verdict_rebaselined")
        },
        Config {
            workers: vec![0, 0],
            faults: 1,
            snapshot: true,
            coarse: true,
            crash: true,
            ..base("n2_w2_crash")
        },
        Config { twice: true, undo: true, refuse: true, ..base("n2_w1_double_execution") },
        Config { down: true, split: true, crash: true, ..base("n2_w1_member_down") },
        Config {
            faults: 1,
            split: true,
            stale: true,
            removal: true,
            permit: true,
            ..base("n2_w1_stale_and_retention")
        },
        Config { faults: 1, delay: true, crash: true, ..base("n2_w1_network_delay") },
        Config {
            workers: vec![0, 1],
            faults: 1,
            snapshot: true,
            loss: true,
            crash: true,
            permit: true,
            deletion: true,
            delay: true,
            ..base("n2_two_operations")
        },
    ]
}

/// Too large for `make test`: three workers, split reads with two, more faults. Each explored as far as the bounds let it.
#[cfg(publication_model)]
pub(super) fn soak() -> Vec<Config> {
    let race = |name, workers: &[u8]| Config {
        workers: workers.to_vec(),
        faults: 0,
        snapshot: true,
        coarse: true,
        ..base(name)
    };
    let two = Config { snapshot: false, ..race("n2_w2_split", &[0, 0]) };
    vec![
        race("n2_w3_race", &[0, 0, 0]),
        Config { faults: 1, crash: true, ..race("n2_w3_crash", &[0, 0, 0]) },
        Config { split: true, ..two.clone() },
        Config {
            name: "n2_w2_split_faults",
            split: true,
            faults: 1,
            loss: true,
            crash: true,
            permit: true,
            stale: true,
            ..two
        },
        Config { members: 3, ..race("n3_w2_race", &[0, 0]) },
        Config {
            faults: 2,
            loss: true,
            crash: true,
            permit: true,
            delay: true,
            ..race("n2_w2_two_faults", &[0, 0])
        },
        Config {
            faults: 1,
            loss: true,
            crash: true,
            deletion: true,
            ..race("n2_w3_two_operations", &[0, 0, 1])
        },
        Config {
            faults: 3,
            reprint: true,
            membership: true,
            refuse: true,
            loss: true,
            coarse: true,
            ..verdict("n2_w1_verdict_three_faults")
        },
        Config { membership: true, refuse: true, coarse: true, ..verdict("n2_w1_verdict_rebound") },
        Config {
            members: 3,
            faults: 1,
            membership: true,
            loss: true,
            coarse: true,
            ..verdict("n3_w1_verdict_rebound")
        },
    ]
}
