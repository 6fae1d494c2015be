//! Clients that are killed at any moment: the others notice nothing, and nothing is left.

use neuron_serve::Options;

use crate::child::Client;
use crate::common::Served;
use crate::work::{DEVICE, InUse, Random, SEED, assert_gone};

/// Clients at once, and their devices: two share one.
const DEVICES: [u8; 4] = [0, 0, 1, 2];
/// Kills of all tests here together, without `NEURON_MEM_KILLS`.
const KILLS: u64 = 200;

fn kills() -> u64 {
    let wanted = std::env::var("NEURON_MEM_KILLS").map(|wanted| wanted.parse().unwrap());
    wanted.unwrap_or(KILLS).div_ceil(4)
}

fn client(served: &Served, slot: usize, seed: u64) -> Client {
    // Both cores of the device that two share.
    let seed = seed * 2 + slot as u64 % 2;
    Client::start("work", served, &[(DEVICE, DEVICES[slot].into()), (SEED, seed)])
}

fn survives_kills(instance: &str, memory_by_socket: bool, seed: u64) {
    let served = Served::with(instance, |options| Options { memory_by_socket, ..options });
    let devices: Vec<_> = (0..3).map(|index| served.device(index)).collect();
    // Rings get memory of their own with the first transfers, and keep it.
    let whole_life = |slot| {
        let client = client(&served, slot, 0);
        client.wait_until("round 1");
        client.kill();
    };
    (0..DEVICES.len()).for_each(whole_life);
    let unused = InUse::of(&served);

    let mut random = Random::new(seed);
    let mut clients: Vec<_> =
        (0..DEVICES.len()).map(|slot| Some(client(&served, slot, random.below(1 << 30)))).collect();
    for _ in 0..kills() {
        let slot = random.below(4) as usize;
        let victim = clients[slot].take().unwrap();
        // The moment is right behind a report, of which a round has seven to eight.
        victim.catch_up();
        (0..random.below(20)).for_each(|_| drop(victim.next()));
        let pid = victim.pid();
        victim.kill();
        assert_gone(&served, &devices[usize::from(DEVICES[slot])], pid);
        clients.iter().flatten().for_each(Client::catch_up);
        clients[slot] = Some(client(&served, slot, random.below(1 << 30)));
    }
    for client in clients.into_iter().flatten() {
        // Everybody is at work, and finds the bytes right.
        client.catch_up();
        client.wait_until("verified");
        client.wait_until("verified");
        client.kill();
    }
    assert_eq!(InUse::of(&served), unused);
    assert_eq!(served.lost_lines(), 0);
}

#[test]
fn clients_are_killed_at_any_moment_and_nothing_is_left_of_them() {
    survives_kills("trn1.32xlarge", false, 1);
}

#[test]
fn clients_that_give_their_bytes_themselves_are_killed_and_nothing_is_left_of_them() {
    survives_kills("trn1.32xlarge", true, 2);
}

#[test]
fn clients_are_killed_in_copies_from_their_own_pages_and_nothing_is_left_of_them() {
    survives_kills("trn2.48xlarge", false, 3);
}

#[test]
fn clients_are_killed_in_copies_from_pages_that_they_give_themselves_and_nothing_is_left_of_them() {
    survives_kills("trn2.48xlarge", true, 4);
}
