//! Images whose programs are simulated: what their configuration and their files say. Pure.

use kstore_container_sim::{ImagePrograms, User};

/// What is known of an image.
#[derive(Debug)]
pub struct KnownImage {
    /// The last parts of its names, in any registry and with any tag.
    names: &'static [&'static str],
    /// The entrypoint; empty if a container's arguments are its command.
    pub entrypoint: &'static [&'static str],
    /// The arguments of a container without any.
    pub arguments: &'static [&'static str],
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
    /// Whether its program is a server that is simulated without running: it answers, and does nothing else.
    pub is_dormant: bool,
}

const PLAIN: KnownImage = KnownImage {
    names: &[],
    entrypoint: &[],
    arguments: &[],
    programs: &[],
    files: &[],
    user: 0,
    users: &[],
    has_certificate: false,
    is_dormant: false,
};

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
    ..PLAIN
};

const KNOWN: [KnownImage; 9] = [
    AGNHOST,
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
        ..PLAIN
    },
    KnownImage {
        names: &["httpd"],
        entrypoint: &["httpd-foreground"],
        programs: &[("httpd-foreground", "httpd")],
        is_dormant: true,
        ..PLAIN
    },
    KnownImage {
        names: &["http-echo"],
        entrypoint: &["/http-echo"],
        programs: &[("/http-echo", "http-echo")],
        is_dormant: true,
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
    KnownImage {
        names: &["busybox", "alpine", "debian", "ubuntu", "bash", "fedora", "centos", "toybox"],
        ..PLAIN
    },
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
    fn the_user_is_the_wanted_one_or_that_of_the_image() {
        let of = |user: u32, group: u32, more: &[u32]| User { user, group, more_groups: more.to_vec() };
        assert_eq!(user("app", None, None, &[], true), of(0, 0, &[]));
        assert_eq!(user("nonroot:1.5", None, None, &[], true), of(1234, 0, &[]));
        assert_eq!(user("agnhost", Some(1000), None, &[5], true), of(1000, 1000, &[50_000, 5]));
        assert_eq!(user("agnhost", Some(1000), Some(3), &[5, 5], false), of(1000, 3, &[5]));
    }
}
