//! Images whose programs are simulated: what their configuration and their files say. Pure.

use kstore_container_sim::{ImagePrograms, User, has_program, name_in_path};

/// What is known of an image.
#[derive(Debug)]
pub struct KnownImage {
    /// The last parts of its names, in any registry and with any tag.
    names: &'static [&'static str],
    /// The entrypoint; empty if a container's arguments are its command.
    pub entrypoint: &'static [&'static str],
    /// The arguments of a container without any.
    pub arguments: &'static [&'static str],
    /// The program that its entrypoint, a script, runs with the arguments of a container, unless they begin with another program.
    pub wrapped: Option<&'static str>,
    /// Programs beside those of every image: the path, and the simulated program.
    programs: &'static [(&'static str, &'static str)],
    /// Files: the path, and the text.
    pub files: &'static [(&'static str, &'static str)],
    /// The user of a container without `runAsUser`.
    user: u32,
    /// Users in its `/etc/passwd`: the user, its group and its further groups.
    users: &'static [(u32, u32, &'static [u32])],
    /// Whether it has a certificate for `localhost` with its key, in [`CERTIFICATE`].
    pub has_certificate: bool,
    /// Whether its program is simulated without running: it answers as a server, or does nothing at all.
    pub is_dormant: bool,
    /// The folder of its configuration, which its simulated server does not read.
    pub configuration: Option<&'static str>,
    /// What is there beside the files and programs above.
    contents: Contents,
}

/// The programs of an image that are known to be there, simulated or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contents {
    /// There may be others.
    Open,
    /// Those of busybox, and these.
    Busybox(&'static str),
    /// None but the entrypoint.
    Entrypoint,
}

const PLAIN: KnownImage = KnownImage {
    names: &[],
    entrypoint: &[],
    arguments: &[],
    wrapped: None,
    programs: &[],
    files: &[],
    user: 0,
    users: &[],
    has_certificate: false,
    is_dormant: false,
    configuration: None,
    contents: Contents::Open,
};

/// The programs of busybox, in its images.
const BUSYBOX: &str = "[ [[ acpid add-shell addgroup adduser adjtimex ar arch arp arping ascii ash awk base32 base64 basename bc beep \
    blkdiscard blkid blockdev bootchartd brctl bunzip2 busybox bzcat bzip2 cal cat chat chattr chgrp chmod chown chpasswd chpst chroot chrt \
    chvt cksum clear cmp comm conspy cp cpio crc32 crond crontab cryptpw cttyhack cut date dc dd deallocvt delgroup deluser depmod devmem \
    df dhcprelay diff dirname dmesg dnsd dnsdomainname dos2unix dpkg dpkg-deb du dumpkmap dumpleases echo ed egrep eject env envdir \
    envuidgid ether-wake expand expr factor fakeidentd fallocate false fatattr fbset fbsplash fdflush fdformat fdisk fgconsole fgrep find \
    findfs flock fold free freeramdisk fsck fsck.minix fsfreeze fstrim fsync ftpd ftpget ftpput fuser getfattr getopt getty grep groups \
    gunzip gzip halt hd hdparm head hexdump hexedit hostid hostname httpd hush hwclock i2cdetect i2cdump i2cget i2cset i2ctransfer id \
    ifconfig ifdown ifenslave ifplugd ifup inetd init inotifyd insmod install ionice iostat ip ipaddr ipcalc ipcrm ipcs iplink ipneigh \
    iproute iprule iptunnel kbd_mode kill killall killall5 klogd last less link linux32 linux64 linuxrc ln loadfont loadkmap logger login \
    logname logread losetup lpd lpq lpr ls lsattr lsmod lsof lspci lsscsi lsusb lzcat lzma lzop lzopcat makedevs makemime man md5sum mdev \
    mesg microcom mim mkdir mkdosfs mke2fs mkfifo mkfs.ext2 mkfs.minix mkfs.vfat mknod mkpasswd mkswap mktemp modinfo modprobe more mount \
    mountpoint mpstat mt mv nameif nanddump nandwrite nbd-client nc netcat netstat nice nl nmeter nohup nologin nproc nsenter nslookup ntpd \
    od openvt partprobe passwd paste patch pgrep pidof ping ping6 pipe_progress pivot_root pkill pmap popmaildir poweroff powertop printenv \
    printf ps pscan pstree pwd pwdx raidautorun rdate rdev readahead readlink readprofile realpath reboot reformime remove-shell renice \
    reset resize resume rev rm rmdir rmmod route rpm rpm2cpio rtcwake run-init run-parts runlevel runsv runsvdir rx script scriptreplay sed \
    seedrng sendmail seq setarch setconsole setfattr setfont setkeycodes setlogcons setpriv setserial setsid setuidgid sh sha1sum sha256sum \
    sha3sum sha512sum showkey shred shuf slattach sleep smemcap softlimit sort split ssl_client start-stop-daemon stat strings stty su \
    sulogin sum sv svc svlogd svok swapoff swapon switch_root sync sysctl syslogd tac tail tar taskset tc tcpsvd tee telnet telnetd test \
    tftp tftpd time timeout top touch tr traceroute traceroute6 tree true truncate ts tsort tty ttysize tunctl ubiattach ubidetach ubimkvol \
    ubirename ubirmvol ubirsvol ubiupdatevol udhcpc udhcpc6 udhcpd udpsvd uevent umount uname uncompress unexpand uniq unit unix2dos unlink \
    unlzma unlzop unshare unxz unzip uptime users usleep uudecode uuencode vconfig vi vlock volname w wall watch watchdog wc wget which who \
    whoami whois xargs xxd xz xzcat yes zcat zcip";

/// Further programs of `agnhost`, which is made of Alpine.
const OF_AGNHOST: &str = "apk bash bridge coredns curl delv dig getconf getent host iconv iperf iperf3 jq ldconfig ldd nsupdate ss";

/// The files of the certificate and of the key that images bring.
pub const CERTIFICATE: (&str, &str) = ("/localhost.crt", "/localhost.key");

const PASSWORDS: &str = "root:x:0:0:root:/root:/bin/ash\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n\
                         user-defined-in-image:x:1000:1000:Linux User,,,:/home/user-defined-in-image:/bin/ash\n";
const GROUPS: &str = "root:x:0:root\nnobody:x:65534:\nuser-defined-in-image:x:1000:\n\
                      group-defined-in-image:x:50000:user-defined-in-image\n";
const ALPINE: &str = "NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.21.3\nPRETTY_NAME=\"Alpine Linux v3.21\"\n\
                      HOME_URL=\"https://alpinelinux.org/\"\n";

/// `agnhost` of Kubernetes' own tests, and images that are made of it.
const AGNHOST: KnownImage = KnownImage {
    names: &["agnhost"],
    entrypoint: &["/agnhost"],
    arguments: &["pause"],
    programs: &[("/agnhost", "agnhost"), ("/agnhost-2", "agnhost")],
    files: &[("/etc/passwd", PASSWORDS), ("/etc/group", GROUPS), ("/etc/os-release", ALPINE)],
    users: &[(1000, 1000, &[50_000])],
    has_certificate: true,
    contents: Contents::Busybox(OF_AGNHOST),
    ..PLAIN
};

const KNOWN: [KnownImage; 12] = [
    AGNHOST,
    KnownImage {
        names: &["pause"],
        entrypoint: &["/pause"],
        is_dormant: true,
        contents: Contents::Entrypoint,
        ..PLAIN
    },
    KnownImage { names: &["busybox"], contents: Contents::Busybox(""), ..PLAIN },
    KnownImage { names: &["curl"], wrapped: Some("curl"), user: 100, users: &[(100, 101, &[])], ..PLAIN },
    KnownImage {
        names: &["kitten"],
        arguments: &["test-webserver"],
        files: &[("/data.json", "{\"image\": \"kitten.jpg\"}\n"), ("/etc/os-release", ALPINE)],
        ..AGNHOST
    },
    KnownImage {
        names: &["nautilus"],
        arguments: &["test-webserver"],
        files: &[("/data.json", "{\"image\": \"nautilus.jpg\"}\n"), ("/etc/os-release", ALPINE)],
        ..AGNHOST
    },
    KnownImage {
        names: &["nginx"],
        entrypoint: &["nginx"],
        arguments: &["-g", "daemon off;"],
        programs: &[("nginx", "nginx")],
        is_dormant: true,
        configuration: Some("/etc/nginx"),
        ..PLAIN
    },
    KnownImage {
        names: &["httpd"],
        entrypoint: &["httpd-foreground"],
        programs: &[("httpd-foreground", "httpd")],
        is_dormant: true,
        configuration: Some("/usr/local/apache2/conf"),
        ..PLAIN
    },
    KnownImage {
        names: &["http-echo"],
        entrypoint: &["/http-echo"],
        programs: &[("/http-echo", "http-echo")],
        is_dormant: true,
        contents: Contents::Entrypoint,
        ..PLAIN
    },
    KnownImage { names: &["nonroot"], user: 1234, ..PLAIN },
    KnownImage {
        names: &["nonewprivs"],
        entrypoint: &["/nnp"],
        programs: &[("/nnp", "nnp")],
        files: &[("/etc/os-release", ALPINE)],
        ..PLAIN
    },
    KnownImage { names: &["alpine", "debian", "ubuntu", "bash", "fedora", "centos", "toybox"], ..PLAIN },
];

/// What is known of the image with this reference; `None` for others.
pub fn find(image: &str) -> Option<&'static KnownImage> {
    let last = image.rsplit('/').next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    KNOWN.iter().find(|known| known.names.contains(&name))
}

/// Whether the program of an image is a server that answers without running.
pub fn is_dormant(image: &str) -> bool {
    find(image).is_some_and(|known| known.is_dormant)
}

/// The version that the tag of an image names: the digits and dots at its beginning.
pub fn version(image: &str) -> Option<&str> {
    let last = image.rsplit('/').next().unwrap_or_default();
    let tag = last.split('@').next()?.split_once(':')?.1;
    let end = tag.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(tag.len());
    Some(tag[..end].trim_end_matches('.')).filter(|version| version.contains('.'))
}

/// The programs of an image beside those of every image.
pub fn programs(image: &str) -> ImagePrograms {
    let programs = find(image).map(|known| known.programs).unwrap_or_default();
    programs.iter().map(|(path, name)| ((*path).to_owned(), (*name).to_owned())).collect()
}

/// What a container runtime says of a command that an image does not have; `None` if it has it, or may have it. What volumes bring is at
/// other paths than those of programs.
pub fn missing(image: &str, command: &[String]) -> Option<String> {
    let (known, word) = (find(image)?, command.first()?);
    let name = name_in_path(word)?;
    let more = match known.contents {
        Contents::Open => return None,
        // The kubelet replaces variables before.
        _ if word.contains("$(") => return None,
        Contents::Busybox(more) => Some(more),
        Contents::Entrypoint => None,
    };
    let is_there = more.is_some_and(|more| {
        let mut all = BUSYBOX.split_whitespace().chain(more.split_whitespace());
        has_program(&programs(image), word) || all.any(|own| own == name)
    });
    match word.contains('/') {
        _ if is_there => None,
        true => Some(format!("exec: \"{word}\": stat {word}: no such file or directory")),
        false => Some(format!("exec: \"{word}\": executable file not found in $PATH")),
    }
}

/// The user of a container of an image: the wanted user and group, and those of the image for what is not wanted.
/// `merges` says that the groups of the user in the image count too.
pub fn user(image: &str, wanted: Option<u32>, group: Option<u32>, more: &[u32], merges: bool) -> User {
    let known = find(image).unwrap_or(&PLAIN);
    let user = wanted.unwrap_or(known.user);
    let listed = known.users.iter().find(|(own, ..)| *own == user);
    let own = listed.filter(|_| merges).map(|(_, _, groups)| *groups).unwrap_or_default();
    let mut more_groups = Vec::new();
    for group in own.iter().chain(more) {
        if !more_groups.contains(group) {
            more_groups.push(*group);
        }
    }
    User { user, group: group.or(listed.map(|(_, group, _)| *group)).unwrap_or(0), more_groups }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_in_any_registry_and_with_any_tag() {
        for image in
            ["agnhost", "registry.k8s.io/e2e-test-images/agnhost:2.63.0", "a.b:5000/agnhost@sha256:00"]
        {
            assert_eq!(find(image).unwrap().entrypoint, ["/agnhost"], "{image}");
        }
        assert!(find("busybox:1.37").unwrap().entrypoint.is_empty());
        assert!(find("nginx-exporter").is_none() && find("agnhost/app").is_none());
        let versions =
            ["nginx", "nginx:1.27", "a:5/nginx:1.27.0-alpine", "nginx:latest", "nginx:1"].map(version);
        assert_eq!(versions, [None, Some("1.27"), Some("1.27.0"), None, None]);
        assert!(is_dormant("docker.io/library/httpd:2") && !is_dormant("agnhost"));
        assert_eq!(find("e2e-test-images/nonewprivs:1.4").unwrap().entrypoint, ["/nnp"]);
        assert_eq!(programs("agnhost").keys().collect::<Vec<_>>(), ["/agnhost", "/agnhost-2"]);
    }

    #[test]
    fn images_whose_programs_are_known_lack_all_others() {
        let of = |image: &str, word: &str| missing(image, &[word.to_owned()]);
        let absent = |word: &str| Some(format!("exec: \"{word}\": executable file not found in $PATH"));
        for image in ["busybox:1.37", "agnhost", "registry.k8s.io/pause:3.10", "http-echo"] {
            assert_eq!(of(image, "nosuch"), absent("nosuch"), "{image}");
            assert_eq!(of(image, "/data/run.sh"), None, "a volume may have it");
        }
        assert_eq!(of("pause", "sh"), absent("sh"));
        let text = "exec: \"/bin/sh\": stat /bin/sh: no such file or directory";
        assert_eq!(of("pause", "/bin/sh").as_deref(), Some(text));
        for word in ["sh", "/bin/sh", "echo", "/usr/bin/vi", "curl", "$(PROGRAM)"] {
            assert_eq!(of("busybox", word), None, "it is there, simulated or not: {word}");
        }
        assert_eq!((of("agnhost", "iperf"), of("busybox", "iperf")), (None, absent("iperf")));
        for open in ["nginx", "alpine", "app"] {
            assert_eq!(of(open, "nosuch"), None, "{open} may have it");
        }
    }

    #[test]
    fn the_user_is_the_wanted_one_or_that_of_the_image() {
        let of = |user: u32, group: u32, more: &[u32]| User { user, group, more_groups: more.to_vec() };
        assert_eq!(user("app", None, None, &[], true), of(0, 0, &[]));
        assert_eq!(user("nonroot:1.5", None, None, &[], true), of(1234, 0, &[]));
        assert_eq!(user("agnhost", Some(1000), None, &[5], true), of(1000, 1000, &[50_000, 5]));
        assert_eq!(user("agnhost", Some(1000), Some(3), &[5, 5], false), of(1000, 3, &[5]));
    }
}
