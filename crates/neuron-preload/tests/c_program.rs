//! A client of the devices in C: ioctl, mmap, descriptors in all their ways, threads, directories,
//! streams.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use common::{Server, compiled};

/// The program.
fn program(server: &Server) -> Option<PathBuf> {
    compiled(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/program.c"), server.folder())
}

/// Runs one part; the server's log afterwards.
fn part(name: &str) -> Option<Server> {
    let server = Server::start();
    let program = program(&server)?;
    server.run(program, &[name]);
    Some(server)
}

#[test]
fn an_ioctl_goes_to_the_server_of_a_device_only() {
    let Some(server) = part("ioctls") else { return };
    assert_eq!(server.log.count("ioctl 100 0x80084e03"), 3, "{:#?}", server.log.lines());
    assert_eq!(server.log.count("ioctl 100 0x8912"), 1);
    assert_eq!(server.log.count("open 102 1 flags 1"), 1);
    server.log.wait(3, "close");
    assert_eq!((server.log.count("stray"), server.log.count("which")), (1, 0));
}

#[test]
fn a_mapping_is_told_when_it_is_there_and_when_its_last_part_is_gone() {
    let Some(server) = part("maps") else { return };
    let lines = server.log.lines();
    let of = |start: &str| lines.iter().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    let (mapped, placed, gone) = (of("mmap"), of("place"), of("unmap"));
    assert_eq!((mapped.len(), placed.len(), gone.len()), (4, 4, 3), "{lines:#?}");
    assert!(mapped[0].ends_with("file 100 offset 0x10000 bytes 0x3000 write 1"), "{lines:#?}");
    assert!(mapped[1].ends_with("file 100 offset 0x10000 bytes 0x1000 write 0"), "whole pages: {lines:#?}");
    // In the order in which they came, since each was gone before the next but one.
    let number = |line: &str| line.split(' ').nth(1).unwrap().to_owned();
    let mapped: Vec<_> = mapped.iter().map(|line| number(line)).collect();
    assert_eq!(gone.iter().map(|line| number(line)).collect::<Vec<_>>(), mapped[..3]);
}

#[test]
fn a_descriptor_is_a_device_wherever_it_comes_from() {
    let Some(server) = part("descriptors") else { return };
    assert_eq!(
        server.log.count("which 100"),
        1,
        "the process that got it by exec: {:#?}",
        server.log.lines()
    );
    server.log.wait(3, "close");
    // Ours, the child's own, and the one after everything was closed.
    assert_eq!(server.log.count("open"), 3);
}

#[test]
fn many_threads_open_ask_map_read_and_fork_at_once() {
    let Some(server) = part("threads") else { return };
    server.log.wait(800, "close");
    assert_eq!(server.log.count("mmap"), 800 + 40);
    assert_eq!(server.log.count("unmap"), 800 + 40);
}

#[test]
fn directories_are_read_in_every_way() {
    part("directories");
}

#[test]
fn a_cancelled_thread_a_cleared_environment_and_bad_arguments_are_as_without_the_library() {
    let Some(server) = part("odd") else { return };
    assert_eq!(server.log.count("ioctl"), 1);
}

#[test]
fn an_allocator_that_looks_around_before_it_can_allocate_is_not_asked_to() {
    let server = Server::start();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/allocator.c");
    let Some(program) = compiled(&source, server.folder()) else { return };
    server.run(program, &[]);
}

#[test]
fn streams_of_the_c_library_read_and_write() {
    let Some(server) = part("streams") else { return };
    server.log.wait(1, "written");
    assert_eq!(
        server.log.count("write sys/devices/virtual/neuron_device/neuron0/info/notify_delay \"-1\\n\""),
        1
    );
}

#[test]
fn a_program_whose_server_ends_gets_errors_and_one_line() {
    let server = Server::start();
    let Some(program) = program(&server) else { return };
    let mut command = server.command(program);
    command.arg("left").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    server.end();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success(), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.starts_with("neuron-mem: the server at unix:/") && stderr.contains(" ended: "),
        "{stderr}"
    );
}
