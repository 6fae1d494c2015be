//! Programs that everybody has, unmodified: what they see of devices that are not the machine's.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod common;

use std::os::unix::process::CommandExt as _;

use common::{Server, is_there};

const DEVICE: &str = "/sys/devices/virtual/neuron_device/neuron0";

#[test]
fn ls_shows_devices_as_character_devices_among_the_machines_files() {
    let server = Server::start();
    let dev = server.run("ls", &["/dev"]);
    let neurons: Vec<_> = dev.lines().filter(|name| name.starts_with("neuron")).collect();
    assert_eq!(neurons, ["neuron0", "neuron1"]);
    assert!(dev.lines().any(|name| name == "null"));
    let long = server.run("ls", &["-l", "/dev/neuron1"]);
    assert!(long.starts_with("crw-rw-rw- 1 root root 240,") && long.contains(" 1 "), "{long}");
    // The type comes with the listing.
    assert!(server.run("ls", &["-F", "--color=always", "/dev"]).contains("neuron1"));
    for parent in ["/sys/class", "/sys/devices/virtual"] {
        let names = server.run("ls", &["-p", parent]);
        assert!(names.lines().any(|name| name == "neuron_device/") && names.lines().count() > 1, "{names}");
    }
    assert!(server.run("ls", &["/sys/module"]).lines().any(|name| name == "neuron"));
}

#[test]
fn ls_shows_links_and_files_of_sysfs_with_their_modes() {
    let server = Server::start();
    let class = server.run("ls", &["-l", "/sys/class/neuron_device/"]);
    let lines: Vec<_> = class.lines().collect();
    assert_eq!(lines.len(), 4, "{class}");
    assert!(lines[1].starts_with("lrwxrwxrwx"), "{class}");
    assert!(lines[1].ends_with("neuron0 -> ../../devices/virtual/neuron_device/neuron0"), "{class}");
    assert!(
        lines[3].starts_with("-r--r--r-- 1 root root 4096") && lines[3].ends_with("node_id_2"),
        "{class}"
    );
    let device = server.run("ls", &["-l", "/sys/class/neuron_device/neuron0/"]);
    assert!(device.contains("-r-------- 1 root root 4096"), "{device}");
    assert!(device.contains("-rw------- 1 root root 4096"), "{device}");
}

#[test]
fn cat_shows_what_a_file_has_now_and_a_missing_one_is_missing() {
    let server = Server::start();
    assert_eq!(server.run("cat", &["/sys/module/neuron/version"]), "2.27.4.0\n");
    assert_eq!(
        server.run(
            "cat",
            &["/sys/class/neuron_device/neuron1/neuron_core0/stats/memory_usage/device_mem/total"]
        ),
        "now: sys/devices/virtual/neuron_device/neuron1/neuron_core0/stats/memory_usage/device_mem/total\n",
        "the server hears the path without links"
    );
    for missing in
        ["/dev/neuron2", "/dev/neuron007", "/sys/module/neuron/none", "/sys/class/neuron_device/neuron2/x"]
    {
        let output = server.command("cat").arg(missing).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("No such file or directory"), "{stderr}");
    }
    assert_eq!(server.log.count("open"), 0);
}

#[test]
fn find_walks_the_tree_and_stat_and_readlink_tell_of_it() {
    let server = Server::start();
    let found = server.run("find", &["/sys/devices/virtual/neuron_device", "-type", "f", "-name", "t*"]);
    let mut found: Vec<_> = found.lines().collect();
    found.sort_unstable();
    let total = "neuron_core0/stats/memory_usage/device_mem/total";
    assert_eq!(found, [0, 1].map(|i| format!("/sys/devices/virtual/neuron_device/neuron{i}/{total}")));
    assert_eq!(
        server.run("find", &["/dev", "-maxdepth", "1", "-name", "neuron*", "-type", "c"]).lines().count(),
        2
    );
    assert_eq!(server.run("readlink", &["-f", "/sys/class/neuron_device/neuron0"]), format!("{DEVICE}\n"));
    assert_eq!(
        server.run("readlink", &["-f", "/sys/class/neuron_device/neuron0/subsystem/node_id_2"]),
        "/sys/class/neuron_device/node_id_2\n"
    );
    assert_eq!(server.run("realpath", &["/dev/../dev//neuron1"]), "/dev/neuron1\n");
    assert_eq!(
        server.run("stat", &["-c", "%F %a %t:%T %s", "/dev/neuron1"]),
        "character special file 666 f0:1 0\n"
    );
    assert_eq!(
        server.run("stat", &["-c", "%F %a %U %s", "/sys/module/neuron/version"]),
        "regular file 444 root 4096\n"
    );
    assert_eq!(server.run("stat", &["-L", "-c", "%F", "/sys/class/neuron_device/neuron0"]), "directory\n");
    let _of_the_machine = server.run("stat", &["-f", "-c", "%T", "/sys/module/neuron"]);
}

#[test]
fn a_shell_tests_reads_writes_and_expands_patterns() {
    let server = Server::start();
    assert_eq!(server.bash("for n in 0 1 2; do [ -e /dev/neuron$n ] && echo $n; done; true"), "0\n1\n");
    assert_eq!(
        server.bash("[ -c /dev/neuron0 ] && [ -r /dev/neuron0 ] && [ -w /dev/neuron0 ] && echo yes"),
        "yes\n"
    );
    assert_eq!(server.bash("echo /dev/neuron*"), "/dev/neuron0 /dev/neuron1\n");
    assert_eq!(
        server.bash("echo /sys/class/neuron_*/neuron?/core_count"),
        "/sys/class/neuron_device/neuron0/core_count /sys/class/neuron_device/neuron1/core_count\n"
    );
    assert_eq!(server.bash("read -r version < /sys/module/neuron/version; echo $version"), "2.27.4.0\n");
    server.bash(&format!("echo 1 > {DEVICE}/reset"));
    server.log.wait(1, "written");
    let path = &DEVICE[1..];
    assert_eq!(server.log.count(&format!("write {path}/reset \"1\\n\"")), 1);
    // A program that gets it for its output, and asks whether that is a terminal.
    server.bash(&format!(
        "printf 0 > {DEVICE}/info/notify_delay; /bin/echo -n -1 >> {DEVICE}/info/notify_delay"
    ));
    server.log.wait(3, "written");
    assert_eq!(server.log.count("write "), 3, "{:?}", server.log.lines());
    assert_eq!(
        server.bash("exec 3<>/dev/neuron1 4</dev/neuron0; ls -l /dev/neuron0 >/dev/null; echo done"),
        "done\n"
    );
    server.log.wait(2, "close");
    assert_eq!((server.log.count("open 100 1 flags 2"), server.log.count("open 101 0 flags 0")), (1, 1));
}

#[test]
fn a_working_directory_in_the_tree_is_like_any_other() {
    let server = Server::start();
    assert_eq!(
        server.bash(
            "cd /sys/class/neuron_device/neuron0 && pwd && pwd -P && /bin/pwd -P && cat core_count && ls info"
        ),
        format!(
            "/sys/class/neuron_device/neuron0\n{DEVICE}\n{DEVICE}\nnow: {}/core_count\nnotify_delay\n",
            &DEVICE[1..]
        )
    );
    assert_eq!(
        server.bash("cd -P /sys/class/neuron_device/neuron0; cat ../../../../module/neuron/version; cd ../..; /bin/pwd"),
        "2.27.4.0\n/sys/devices/virtual\n"
    );
    assert_eq!(
        server.bash("cd /dev && ls -d neuron? && cd /sys/module && cat neuron/version"),
        "neuron0\nneuron1\n2.27.4.0\n"
    );
    assert_eq!(
        server.bash(
            "cd /sys/module/neuron && ls .. | grep -c '^neuron$' && cat /etc/../sys/module/neuron/version"
        ),
        "1\n2.27.4.0\n"
    );
}

#[test]
fn what_would_change_the_tree_is_refused() {
    let server = Server::start();
    for (script, expected) in [
        ("rm -f /dev/neuron0", "Operation not permitted"),
        ("rmdir /sys/class/neuron_device", "Operation not permitted"),
        ("mv /dev/neuron0 /tmp/", "Operation not permitted"),
        ("mkdir /sys/module/neuron", "File exists"),
        ("mkdir /sys/module/neuron/new", "Operation not permitted"),
        ("ln -s /tmp /dev/neuron9", "Operation not permitted"),
        ("chmod 777 /dev/neuron0", "Operation not permitted"),
        ("chown 1:1 /sys/module/neuron/version", "Operation not permitted"),
        ("truncate -s 0 /sys/module/neuron/version", "Permission denied"),
        ("echo > /dev/neuron5", "Permission denied"),
        ("echo > /sys/class/neuron_device/new", "Permission denied"),
        ("echo > /sys/module/neuron/version", "Permission denied"),
        ("echo > /sys/module/neuron", "Is a directory"),
        ("cat /dev/neuron0/", "Not a directory"),
    ] {
        let output = server.command("bash").args(["--norc", "-c", script]).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && stderr.contains(expected), "{script}: {stderr}");
    }
    assert!(server.tree().join("dev/neuron0").exists());
}

#[test]
fn a_copy_of_a_file_has_what_the_file_has() {
    let server = Server::start();
    let copy = server.folder().join("copy");
    server.run("cp", &["/sys/module/neuron/version", copy.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(copy).unwrap(), "2.27.4.0\n");
    assert_eq!(server.run("grep", &["-rl", "27.4", "/sys/module/neuron"]), "/sys/module/neuron/version\n");
    assert_eq!(server.run("head", &["-c", "4", "/sys/module/neuron/version"]), "2.27");
    assert_eq!(server.run("wc", &["-c", "/sys/module/neuron/version"]), "9 /sys/module/neuron/version\n");
}

/// As root nothing would be refused.
#[test]
fn another_user_may_what_the_modes_say() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can be another user");
        return;
    }
    let server = Server::start();
    let library = server.folder().join("libneuron_preload.so");
    std::fs::copy(common::library(), &library).unwrap();
    let script = "cat /sys/module/neuron/version; cat /sys/class/neuron_device/neuron0/core_count 2>&1; \
                  [ -r /sys/class/neuron_device/neuron0/core_count ] || echo unreadable; \
                  echo 1 > /sys/class/neuron_device/neuron0/info/notify_delay; exec 3<>/dev/neuron0 && echo open";
    let mut command = server.command("bash");
    command.args(["--norc", "-c", script]).env("LD_PRELOAD", &library).uid(65534).gid(65534).current_dir("/");
    let output = command.output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let refused = "cat: /sys/class/neuron_device/neuron0/core_count: Permission denied";
    assert_eq!(stdout, format!("2.27.4.0\n{refused}\nunreadable\nopen\n"), "{stderr}");
    assert!(stderr.contains("notify_delay: Permission denied"), "{stderr}");
}

#[test]
fn python_lists_opens_matches_and_walks() {
    if !is_there("python3") {
        return;
    }
    let server = Server::start();
    let script = r#"
import glob, os, pathlib, stat
names = os.listdir("/dev")
assert [n for n in sorted(names) if n.startswith("neuron")] == ["neuron0", "neuron1"], names
entries = {e.name: e for e in os.scandir("/dev")}
assert stat.S_ISCHR(entries["neuron1"].stat().st_mode) and not entries["neuron1"].is_dir()
assert os.major(entries["neuron1"].stat().st_rdev) == 240
assert {e.name for e in os.scandir("/sys/class") if e.is_dir()} >= {"neuron_device", "net"}
assert open("/sys/module/neuron/version").read() == "2.27.4.0\n"
assert pathlib.Path("/sys/module/neuron/version").read_text() == "2.27.4.0\n"
assert sorted(glob.glob("/dev/neuron[0-9]*")) == ["/dev/neuron0", "/dev/neuron1"]
assert sorted(p.name for p in pathlib.Path("/sys/class").glob("neuron_device/neuron*")) == ["neuron0", "neuron1"]
device = "/sys/devices/virtual/neuron_device/neuron0"
assert os.path.realpath("/sys/class/neuron_device/neuron0") == device
assert os.readlink("/sys/class/neuron_device/neuron0").endswith("neuron_device/neuron0")
walked = [os.path.join(d, f) for d, _, fs in os.walk(device) for f in fs]
assert len(walked) == 4, walked
assert not os.path.exists("/dev/neuron2") and os.path.exists("/dev/neuron1")
with open(device + "/reset", "w") as f:
    f.write("1")
fd = os.open("/dev/neuron0", os.O_RDWR | os.O_CLOEXEC)
here, there = os.fstat(fd), os.stat("/dev/neuron0")
assert stat.S_ISCHR(here.st_mode) and (here.st_ino, here.st_dev, here.st_rdev) == (there.st_ino, there.st_dev, there.st_rdev)
assert not os.get_inheritable(fd) and os.read(fd, 10) == b""
with open("/sys/module/neuron/version") as f:
    assert os.fstat(f.fileno()).st_ino == os.stat("/sys/module/neuron/version").st_ino
    assert stat.S_IMODE(os.fstat(f.fileno()).st_mode) == 0o444
d = os.open("/sys/class", os.O_RDONLY)
e = os.open("neuron_device/neuron0", os.O_RDONLY, dir_fd=d)
assert "core_count" in os.listdir(e)
assert os.stat("info/notify_delay", dir_fd=e).st_size == 4096
assert os.read(os.open("core_count", os.O_RDONLY, dir_fd=e), 100).startswith(b"now:")
assert os.readlink(f"/proc/self/fd/{e}") == device
os.chdir(e)
assert os.getcwd() == device and os.path.abspath("x") == device + "/x"
os.chdir("..")
assert os.getcwd() == "/sys/devices/virtual/neuron_device"
for n in os.listxattr("/dev/neuron0"):
    raise SystemExit(n)
print("ok")
"#;
    assert_eq!(server.run("python3", &["-c", script]), "ok\n");
    server.log.wait(1, "written");
    assert_eq!(server.log.count("write sys/devices/virtual/neuron_device/neuron0/reset \"1\""), 1);
    assert_eq!(server.log.count("stray"), 0);
}

/// On a machine that has devices of its own, which a namespace is made to be.
#[test]
fn the_machines_own_devices_are_hidden() {
    let server = Server::start();
    let machine = server.folder().join("machine");
    for folder in ["dev", "module/neuron", "module/other", "class/neuron_device/neuron7"] {
        std::fs::create_dir_all(machine.join(folder)).unwrap();
    }
    for file in ["dev/neuron1", "dev/neuron7", "dev/neurons", "module/neuron/version", "module/neuron/own"] {
        std::fs::write(machine.join(file), "the machine's").unwrap();
    }
    let mount =
        "cd $0 && mount --bind dev /dev && mount --bind module /sys/module && mount --bind class /sys/class";
    let look = "ls /dev /sys/module /sys/class /sys/class/neuron_device; cat /sys/module/neuron/version; \
                [ -e /dev/neuron7 ] || [ -e /sys/module/neuron/own ] || [ -e /sys/class/neuron_device/neuron7 ] || echo hidden";
    let namespace = |script: &str| {
        let mut command = server.command("unshare");
        command.args(["-r", "-m", "bash", "--norc", "-c", script]).arg(&machine);
        command
    };
    if !namespace(mount).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: namespaces are not to be had");
        return;
    }
    let seen = common::told(&mut namespace(&format!("{mount} && {look}")));
    assert_eq!(
        seen,
        "/dev:\nneuron0\nneuron1\nneurons\n\n/sys/class:\nneuron_device\n\n\
         /sys/class/neuron_device:\nneuron0\nneuron1\nnode_id_2\n\n/sys/module:\nneuron\nother\n2.27.4.0\nhidden\n"
    );
}

#[test]
fn without_the_variables_nothing_is_done() {
    let server = Server::start();
    for name in ["NEURON_MEM_RUN_SOCKET", "NEURON_MEM_RUN_TREE"] {
        let mut command = server.command("ls");
        command.arg("/dev/neuron1").env_remove(name);
        assert!(!command.output().unwrap().status.success() || std::path::Path::new("/dev/neuron1").exists());
    }
    assert!(server.log.lines().is_empty());
}

#[test]
fn a_server_that_is_gone_is_told_once() {
    let server = Server::start();
    std::fs::remove_file(server.folder().join("socket")).unwrap();
    let output =
        server.command("cat").args(["/dev/neuron0", "/dev/neuron1", "/sys/module/neuron/version"]).output();
    let stderr = String::from_utf8(output.unwrap().stderr).unwrap();
    let told = stderr.lines().filter(|line| line.starts_with("neuron-mem: the server at unix:/")).count();
    let refused = stderr.lines().filter(|line| line.ends_with("No such device")).count();
    assert_eq!((told, refused), (1, 3), "{stderr}");
}
