//! Clients that are made up: whatever they say, the server lives and loses nothing.

use std::os::fd::OwnedFd;

use neuron_abi::cmd;
use neuron_wire::client::open;
use neuron_wire::message::{Hello, Reply, Request, SHORT};
use neuron_wire::packet::Packet;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use zerocopy::IntoBytes;

use crate::host::{Host, send_bytes};

/// What a client that makes it up as it goes does.
#[derive(Clone, Debug)]
enum Made {
    /// Bytes as a first packet, and more after it.
    Bytes(Vec<Vec<u8>>),
    /// A greeting that is right, with bytes behind it.
    Role(u32, Vec<u8>, Vec<Vec<u8>>),
    /// Calls with wild numbers, some with the number of an open file.
    Calls(Vec<(u32, u32, bool, u64, u64, u64)>),
}

fn made() -> impl Strategy<Value = Made> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let packets = || prop::collection::vec(bytes(), 0..6);
    let word = prop_oneof![any::<u32>(), (0..cmd::ALL.len()).prop_map(|index| cmd::ALL[index].word),];
    let number = || prop_oneof![any::<u64>(), 0..9_u64, Just(u64::MAX), Just(1 << 47), Just(4096)];
    let call = (0..9_u32, word, prop::bool::weighted(0.8), number(), number(), number());
    prop_oneof![
        packets().prop_map(Made::Bytes),
        (0..8_u32, bytes(), packets()).prop_map(|(role, tail, packets)| Made::Role(role, tail, packets)),
        prop::collection::vec(call, 1..20).prop_map(Made::Calls),
    ]
}

#[test]
fn whatever_a_client_makes_up_the_server_lives_and_loses_nothing() {
    for by_socket in [false, true] {
        // One that gives no answers is waited for.
        let host = Host::new(20, by_socket);
        let mut runner =
            TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&prop::collection::vec(made(), 1..4), |clients| {
            let mut open = Vec::new();
            for client in clients {
                open.push(make_up(&host, client));
            }
            drop(open);
            Ok(())
        });
        outcome.unwrap();
        host.assert_well();
    }
}

fn make_up(host: &Host, client: Made) -> Vec<OwnedFd> {
    let send_all = |socket: &OwnedFd, packets: &[Vec<u8>]| {
        for bytes in packets {
            send_bytes(socket, bytes);
        }
    };
    match client {
        Made::Bytes(packets) => {
            let socket = host.connect();
            send_all(&socket, &packets);
            vec![socket]
        }
        Made::Role(role, tail, packets) => {
            let socket = host.connect();
            send_bytes(&socket, &[Hello::new(role).as_bytes(), &tail].concat());
            send_all(&socket, &packets);
            vec![socket]
        }
        Made::Calls(calls) => {
            let file = open::open(&host.address, 0, 2).unwrap();
            let lane = host.lane();
            for (kind, word, right, a, b, c) in calls {
                // No chance hits an address of this process: one of 2^64.
                let file = if right { file.file } else { a };
                let request = Request { kind, word, file, a, b, c };
                send_bytes(&lane, request.as_bytes());
                let answer = Packet::receive(&lane, SHORT).unwrap().unwrap();
                answer.head::<Reply>().unwrap();
            }
            vec![lane, file.socket]
        }
    }
}
